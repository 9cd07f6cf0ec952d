"""The ZooKeeper session, and what all registries need: nodes, watches, ephemeral nodes, errors.

Read :mod:`.nodes`, :mod:`.states`, :mod:`.zookeeper` (the session), :mod:`.kazoo_client` (the
library below it), then :mod:`.watches` and :mod:`.ephemeral`. :mod:`.access` decides who may write
a node.
"""
