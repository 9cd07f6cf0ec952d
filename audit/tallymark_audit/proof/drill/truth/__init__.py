"""What really happened in a drill, and what the audit therefore has to say.

Read :mod:`.books_and_logs` first, then :mod:`.expected`; :mod:`.whole_truth` puts them together.
"""
