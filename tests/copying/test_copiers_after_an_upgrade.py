"""A cluster of a release without transactions is upgraded as docs/operations.md says, broker by
broker, while a producer sends; then copiers work in the older protocol, the level of
``transaction.version`` is raised, and they go on in the newer one. Nothing is lost or doubled. The
short twin is in ``broker/cluster/test_feature_levels.py``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from commands import run_command
from copied_cluster import SETTINGS, no_traceback
from copies_judged import SOURCE, TARGET
from copy_story import CopyStory, create_topics
from ended_with import protocols
from release_before import release_without_transactions
from replicated_cluster import ReplicatedCluster

from tallymark import Producer, SimpleConsumer
from tallymark.cli.admin.features import command as features
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(900)]
COUNT: Final = 20_000


def test_copiers_follow_an_upgrade_from_a_release_without_transactions(tmp_path: Path) -> None:
    code = tmp_path / "before"
    if why := release_without_transactions(code):
        pytest.skip(f"the release without transactions cannot be had: {why}")
    known = {name: value for name, value in SETTINGS.items() if not name.startswith("transaction_")}
    with (
        zookeeper_or_skip(tmp_path) as server,
        ReplicatedCluster(tmp_path, server, code=code, **known) as cluster,
    ):
        cluster.wait_for_all()
        create_topics(cluster.addresses, replicas=3)
        with (
            CopyStory(tmp_path, cluster.addresses, COUNT, protocol=2, at_once=False) as story,
            publishing(story),
        ):
            refuses_transactions(cluster.addresses)
            replace_each_broker(cluster)
            for copier in story.copiers:
                copier.start()
            story.until(0.2)
            assert protocols(cluster.addresses) == {0}
            raise_level(cluster.addresses)
            for number, copier in enumerate(story.copiers):
                copier.stop()
                copier.start()
                story.until(0.3 + number / 10)
            assert 2 in protocols(cluster.addresses)
            coordinator = cluster.brokers[cluster.leader(TRANSACTIONS_TOPIC)]
            coordinator.kill()
            coordinator.start()
            story.finish()
        no_traceback(*cluster.brokers.values())


@contextmanager
def publishing(story: CopyStory) -> Iterator[None]:
    """A thread sends the input meanwhile. At the end all of it was sent."""
    sender = threading.Thread(target=story.publish, args=(0.05,), name="sends the input")
    sender.start()
    try:
        yield
    finally:
        sender.join()


def replace_each_broker(cluster: ReplicatedCluster) -> None:
    """Rolling: one after the other is stopped, and started with the code of this project. Until the
    last one there is no coordinator, and a transactional producer is refused."""
    for broker in cluster.brokers.values():
        refuses_transactions(cluster.addresses)
        broker.stop()
        broker.code = None
        broker.configure(**SETTINGS)
        broker.start()
        for topic in (SOURCE, TARGET):
            cluster.wait_until_whole(topic)
        goes_on(cluster.addresses)


def goes_on(servers: str) -> None:
    """More input comes."""
    before = received(servers)
    wait_for(lambda: received(servers) > before, "the producer goes on")


def received(servers: str) -> int:
    """How many messages the input has."""
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        return sum(consumer.end_offsets(SOURCE).values())


def refuses_transactions(servers: str) -> None:
    """In time, and with an error."""
    with (
        Producer(bootstrap_servers=servers, transactional_id="early", max_block_ms=2000) as early,
        pytest.raises(TallymarkError),
    ):
        early.init_transactions()


def raise_level(servers: str) -> None:
    """The command of the guide."""
    run_command(features, "upgrade", "transaction.version=2", "--bootstrap-server", servers)
