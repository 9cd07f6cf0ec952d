"""Pages of docs/ that are printed from the code.

Each module is a command: ``python -m tallymark.broker.reference.protocol_page``.
"""
