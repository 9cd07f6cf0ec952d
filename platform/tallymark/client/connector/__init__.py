"""The consumer connector: a group of consumers and their streams.

Read :mod:`.connector` (the public class) first, then :mod:`.engine`, which runs coordination and
fetcher; :mod:`.group_protocols` chooses between ZooKeeper and the brokers.
"""
