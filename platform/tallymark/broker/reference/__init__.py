"""Pages of docs/ that are printed from the code.

Each module is a command, for example ``python -m tallymark.broker.reference.protocol_page``.
A test compares each page with what its command prints.
"""
