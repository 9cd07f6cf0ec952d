"""``tallymark verify-log``: checks the files of logs on a disk.

Read :mod:`.verify` first, then :mod:`.chain` (from batch to batch) and :mod:`.indexes`.
"""
