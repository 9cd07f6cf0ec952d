"""The groups whose partitions of ``__consumer_offsets`` this broker leads.

Read :mod:`.shards` (all of them) first, then :mod:`.shard` (one partition's groups), then what it
is made of: :mod:`.log` and :mod:`.expiry`.
"""
