"""Between the pure decisions of :mod:`tallymark.replication` and the nodes of ZooKeeper.

Read :mod:`.writing`: changes of partitions become transactions, and what became of each is said.
:mod:`.facts` are the nodes that such changes are about. :mod:`.picture` reads all that is
decided from, :mod:`.term` is what a controller does with it. :mod:`.starting` is what a broker
gives up before it registers again.
"""
