"""What coordinators of groups (and later of transactions) have in common: their state is a log.

A coordinator is the leader of a partition of its topic. Read :mod:`.replayed` first (the state in
one leader epoch, and when an answer may leave), then :mod:`.shards` (which partitions this broker
coordinates), :mod:`.state_log` (records on disk), :mod:`.settled` (answers that have to wait) and
:mod:`.refusals` (error codes).
"""
