"""Restricts the nodes of a cluster that existed before it had credentials.

A node keeps the access-control list with which it was created. So when a deployment gets
credentials, all older nodes are open to everyone. The first broker that starts with the credentials
restricts them: deepest nodes first, :data:`TOP` last. A broker that finds :data:`TOP` restricted
has nothing to do; an interrupted walk is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session.zookeeper import ZooKeeper

log: Final = logging.getLogger(__name__)

TOP: Final = (
    *(paths.TOPICS, paths.CHANGES, paths.DELETED_TOPICS, paths.BROKER_IDS, "/brokers"),
    *(paths.TOPIC_CONFIGS, paths.USERS, paths.CLIENTS, paths.BROKER_CONFIGS, paths.GROUP_CONFIGS),
    *("/config", paths.ACLS, paths.PREFIXED_ACLS, "/kafka-acl-extended", paths.DELETE_TOPICS),
    *("/admin", paths.CLUSTER_ID, "/cluster", paths.CONTROLLER_EPOCH, paths.PRODUCER_IDS, "/"),
)
"""The last nodes of every walk, in this order."""
_TOGETHER: Final = 500


def restrict_nodes(zookeeper: ZooKeeper) -> int:
    """Restrict the open nodes below the chroot, and the chroot itself (but not ZooKeeper's own
    root, which is not ours). Returns how many nodes. Nodes that ZooKeeper consumers write stay
    open. Does nothing for a session without credentials."""
    if not zookeeper.closes:
        return 0
    top = [path for path in TOP if path != "/" or zookeeper.chroot]
    if not zookeeper.unrestricted(top):
        return 0
    log.warning(
        "nodes below %s%s stand open from before there were credentials: closing them",
        zookeeper.connect,
        zookeeper.chroot or "/",
    )
    closed = failed = 0
    below = [path for path in _tree(zookeeper, "") if path not in TOP]
    below.sort(key=lambda path: -path.count("/"))
    for part in (below, top):
        for at in range(0, len(part), _TOGETHER):
            found = zookeeper.unrestricted(part[at : at + _TOGETHER])
            done = zookeeper.restrict(found) if found else 0
            closed, failed = closed + done, failed + len(found) - done
    log.warning("closed %d nodes; %d have gone, or were closed by another broker", closed, failed)
    return closed


def _tree(zookeeper: ZooKeeper, path: str) -> Iterator[str]:
    for name in zookeeper.children(path or "/"):
        child = f"{path}/{name}"
        if child not in (paths.CONSUMERS, "/zookeeper"):
            yield child
            yield from _tree(zookeeper, child)
