"""The replicas that this broker copies from their leaders.

Decided without I/O: :mod:`.sessions` (what is named in the next Fetch, KIP-227),
:mod:`.fetch_requests` (which partitions it asks for, and the requests), :mod:`.answers` (what an
answer says of a partition). What a partition does with it is decided by
:mod:`tallymark.replication.following`. :mod:`.fetch_settings` has Kafka's settings of these.
:mod:`.cutting` is the one place that removes records at the end of a replica's log.
Nothing uses them yet: a partition has one replica.
"""
