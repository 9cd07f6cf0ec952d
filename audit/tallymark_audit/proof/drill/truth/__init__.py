"""What really happened in a drill, and what the audit therefore has to say.

Read :mod:`.books_and_logs` first (what producers, logs and consumers hold), then :mod:`.expected`
(what that means, pure); :mod:`.whole_truth` puts them together.
"""
