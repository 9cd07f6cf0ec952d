"""Topics in ZooKeeper: partitions, leaders, settings, changes, and which topics were deleted.

Read :mod:`.registry` and :mod:`.configs`, then :mod:`.writer` (every change is one transaction),
:mod:`.changes` (how brokers learn of it) and :mod:`.deleted`.
"""
