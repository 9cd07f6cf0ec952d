"""The groups whose partitions of ``__consumer_offsets`` this broker leads.

Read :mod:`.shards` (all partitions) first, then :mod:`.shard` (one partition's groups) and
:mod:`.expiry` (old offsets). Their records, and when an answer may leave:
:mod:`tallymark.broker.coordinators`.
"""
