"""Between the pure decisions of :mod:`tallymark.replication` and the nodes of ZooKeeper.

Read :mod:`.writing`: changes of partitions become transactions, and what became of each is said.
Then :mod:`.facts`: the nodes that such changes are about, and the steps of a transaction.
"""
