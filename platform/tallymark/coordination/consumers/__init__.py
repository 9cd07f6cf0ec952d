"""Groups of consumers that coordinate themselves in ZooKeeper.

Read :mod:`.registry` (members and partition owners), :mod:`.subscriptions` (what a member reads),
:mod:`.offsets`.
"""
