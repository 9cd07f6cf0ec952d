"""Requests about hundreds of topics in a cluster with ZooKeeper.

Each topic waited for an image of its own, 0.05 to 0.1 s: a request for 500 topics timed out though
all of them were created.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_members import member, metadata, state_of, zookeeper_or_skip
from eventually import eventually

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.metadata.zookeeper_view import ZooKeeperView
from tallymark.broker.yielding import side_by_side
from tallymark.client import Admin, NewTopic
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import MetadataRequest, MetadataRequestTopic
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

NAMES = [f"many.{number}" for number in range(100)]
_READS = Counter[int]()
"""Readings of the image, by broker."""


@pytest.fixture
def two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[BrokerThread, BrokerThread]]:
    """Two brokers of one cluster that count their readings of the image."""
    read = ZooKeeperView.read_in_office

    def counted(view: ZooKeeperView) -> MetadataImage:
        _READS[view._node_id] += 1
        return read(view)

    monkeypatch.setattr(ZooKeeperView, "read_in_office", counted)
    with (
        zookeeper_or_skip(tmp_path / "zookeeper") as zookeeper,
        member(tmp_path, zookeeper, "many", 0) as first,
        member(tmp_path, zookeeper, "many", 1) as second,
    ):
        for each in (first, second):
            eventually(lambda each: len(metadata(each.bootstrap_servers).brokers) == 2, each)
        _READS.clear()
        yield first, second


@pytest.mark.process
def test_topics_of_one_request_share_images(two: tuple[BrokerThread, BrokerThread]) -> None:
    with Admin(bootstrap_servers=two[0].bootstrap_servers) as admin:
        wanted = [*(NewTopic(name, partitions=2) for name in NAMES), NewTopic("no/name")]
        made = admin.create_topics(wanted)
        assert sorted(made) == sorted(NAMES), "one that is refused refuses no other one"
        assert list(made.errors) == ["no/name"]
        assert _READS[0] < len(NAMES) / 4
        image = state_of(two[0]).image
        assert all(len(image.topics[name].partitions) == 2 for name in NAMES)
        assert image.load() == {0: 100, 1: 100}, "each was placed with all before it in view"
        _READS.clear()
        admin.create_partitions(dict.fromkeys(NAMES, 3)).check()
        assert _READS[0] < len(NAMES) / 4
        assert all(len(state_of(two[0]).image.topics[name].partitions) == 3 for name in NAMES)
        again = admin.create_topics([NewTopic(NAMES[0]), NewTopic("new")])
        error = again.errors[NAMES[0]]
        assert isinstance(error, KafkaError)
        assert error.code == CODES["TOPIC_ALREADY_EXISTS"]
        assert list(again) == ["new"]


@pytest.mark.process
def test_topics_that_a_client_names_first_share_images(
    two: tuple[BrokerThread, BrokerThread],
) -> None:
    topics = [MetadataRequestTopic(name=name) for name in NAMES]
    with WireClient(two[1].bootstrap_servers, timeout=30) as wire:
        answer = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    assert {topic.name for topic in answer.topics if not topic.error_code} == set(NAMES)
    assert _READS[1] < len(NAMES) / 4


def test_results_come_in_order_and_only_so_many_are_begun() -> None:
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(number % 7):
            await asyncio.sleep(0)
        running -= 1
        return number * 2

    found = asyncio.run(side_by_side(range(100), work, 10))
    assert found == [number * 2 for number in range(100)]
    assert most == 10
    assert asyncio.run(side_by_side((), work, 10)) == []


def test_work_that_waits_for_nothing_leaves_the_loop_to_others() -> None:
    """A request that only checks a hundred thousand topics must not hold the event loop."""
    turns = 0

    async def work(number: int) -> None:
        return None

    async def body() -> None:
        nonlocal turns
        task = asyncio.ensure_future(side_by_side(range(10_000), work, 10))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(body())
    assert turns >= 1000
