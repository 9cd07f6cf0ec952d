"""A cluster of broker processes with the topics that are copied, in either protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from broker_process import BrokerProcess
from cluster_members import zookeeper_or_skip
from copies_judged import SOURCE, TARGET
from copy_story import create_topics
from replicated_cluster import ReplicatedCluster

from tallymark import Admin

SETTINGS: Final[dict[str, Any]] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 500,
    "transaction_state_log_num_partitions": 1,
    "offsets_topic_num_partitions": 1,
}
"""One coordinator of transactions and one of groups, and copiers that are missed soon."""


@contextmanager
def copied_cluster(
    folder: Path,
    protocol: int,
    prepare: Callable[[ReplicatedCluster], object] = lambda cluster: None,
    **settings: Any,
) -> Iterator[ReplicatedCluster]:
    """Three brokers; both topics have three replicas, all in sync. ``protocol`` is 1 or 2,
    ``prepare`` is called before the brokers start. At the end no broker's log may have a traceback.
    Skips where there is no Java."""
    with zookeeper_or_skip(folder) as server, ExitStack() as stack:
        cluster = ReplicatedCluster(folder, server, **(SETTINGS | settings))
        prepare(cluster)
        stack.enter_context(cluster)
        cluster.wait_for_all()
        if protocol == 2:
            raise_transaction_level(cluster.addresses)
        create_topics(cluster.addresses, replicas=3)
        for topic in (SOURCE, TARGET):
            cluster.wait_until_whole(topic)
        yield cluster
        no_traceback(*cluster.brokers.values())


def raise_transaction_level(servers: str) -> None:
    """To the protocol in which each end raises the epoch."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.update_features({"transaction.version": 2})


def no_traceback(*brokers: BrokerProcess) -> None:
    """Nothing unforeseen has happened in their processes."""
    for broker in brokers:
        text = broker.log.read_text(errors="replace")
        assert "Traceback" not in text, text[max(text.find("Traceback") - 500, 0) :][:3000]
