"""ACLs, users and quotas in ZooKeeper, in the nodes of Apache Kafka.

Read :mod:`.acls` (one node for each resource) first, then :mod:`.users` (one node for each user or
client). Tools of Apache Kafka read and write the same nodes.
"""
