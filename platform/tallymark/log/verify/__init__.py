"""``tallymark verify-log``: checks the files of logs on a disk, and changes nothing.

Read :mod:`.verify` first (the walk over a folder), then :mod:`.chain` (from batch to batch) and
:mod:`.indexes`.
"""
