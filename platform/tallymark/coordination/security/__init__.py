"""ACLs, users and quotas in ZooKeeper, in the nodes of Apache Kafka.

Read :mod:`.acls` and :mod:`.users`.
"""
