"""How often each broker has started: the version of ``/brokers/epochs/[id]`` is its broker epoch.

A broker raises it when it registers (:mod:`.broker_node`). What names an older epoch is of an
earlier process, whose log may have been another one (KIP-380, KIP-903); a transaction that counts
on a broker checks the version in ZooKeeper itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.coordination import paths
from tallymark.coordination.session.nodes import Check
from tallymark.coordination.session.zookeeper import ZooKeeper


def epochs_of(zookeeper: ZooKeeper, brokers: Sequence[int]) -> dict[int, int]:
    """Broker -> epoch; brokers that never raised one are left out."""
    nodes = zookeeper.read_many([paths.broker_epoch(broker) for broker in brokers])
    return {
        broker: node.version
        for broker, node in zip(brokers, nodes, strict=True)
        if node is not None
    }


def check_epoch(broker_id: int, epoch: int) -> Check:
    """The step that makes a transaction fail unless the broker's epoch still is this one."""
    return Check(paths.broker_epoch(broker_id), epoch)
