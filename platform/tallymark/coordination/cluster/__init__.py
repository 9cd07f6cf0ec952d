"""A cluster in ZooKeeper: its id, its brokers, the controller's election, blocks of producer ids.

Read :mod:`.brokers`, then :mod:`.controller`; :mod:`.restricting` restricts nodes that were made
before the cluster had credentials.
"""
