"""The replicas of this broker: those that it leads, and those that it copies from their leaders.

Led: :mod:`.leading` (all of them), :mod:`.lead` (one), :mod:`.isr_writing` (their changes of ISRs).
What a leader decides is in :mod:`tallymark.replication.leading`.

Copied: :mod:`.fetching` (all of them), :mod:`.fetcher` (one connection to a leader),
:mod:`.followed` (the steps of one partition). Decided without I/O: :mod:`.sessions` (what is named
in the next Fetch, KIP-227), :mod:`.fetch_requests` (which partitions it asks for, and the
requests), :mod:`.answers` (what an answer says of a partition), and by
:mod:`tallymark.replication.following` what a partition does with it. :mod:`.fetch_settings` has
Kafka's settings of these. :mod:`.cutting` is the one place that removes records at the end of a
replica's log.

:mod:`.suspects`: brokers whose process is gone are reported.
"""
