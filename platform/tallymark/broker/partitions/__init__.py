"""The partitions that this broker leads, one owner for each.

Read :mod:`.partition` first, then :mod:`.append_queue` and :mod:`.flush_waiters`, which it drives;
:mod:`.table` holds all of them.
"""
