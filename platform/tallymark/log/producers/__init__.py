"""Idempotent producers: the sequence numbers that a log remembers.

Read :mod:`.state` (which batch is a duplicate), :mod:`.snapshot` (its file), :mod:`.recovery` (the
state after a crash).
"""
