"""``tallymark verify-log``: whether logs on a disk are what they should be.

Read :mod:`.verify` first.
"""
