"""Algorithm 1 of the Kafka paper: a group divides its partitions in ZooKeeper.

Read :mod:`.rebalance` (the division) and :mod:`.machine` (the decisions, pure) first, then
:mod:`.coordinator`.
"""
