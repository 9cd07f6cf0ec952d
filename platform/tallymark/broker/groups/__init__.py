"""The groups whose partitions of ``__consumer_offsets`` this broker leads.

Read :mod:`.shards` (all partitions) first, then :mod:`.shard` (one partition's groups), then
:mod:`.log` (their records) and :mod:`.expiry` (old offsets).
"""
