"""The stream's part on the driver against a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark import Admin, Producer
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.source.streaming.settings import parse_stream_options
from tallymark_spark_jobs.source.streaming.stream_reader import Driver


class Cluster:
    """A broker with the topic ``t`` of two partitions."""

    def __init__(self, broker: BrokerThread, location: Path) -> None:
        self.servers = broker.bootstrap_servers
        self.location = location
        self.admin = Admin(bootstrap_servers=self.servers)
        self.admin.create_topic("t", 2)

    def send(self, partition: int, count: int, topic: str = "t") -> None:
        with Producer(bootstrap_servers=self.servers, audit=False) as producer:
            for _ in range(count):
                producer.send(topic, b"x", partition=partition)

    def expire(self, offset: int) -> None:
        self.admin.delete_records({("t", 0): offset})

    def driver(self, **options: str) -> Driver:
        """Another process of the query: only files are common to two of them."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": "t",
            "startingOffsets": "earliest",
            "startingOffsetsLocation": str(self.location),
        }
        return Driver(parse_stream_options({**given, **options}))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with BrokerThread(tmp_path / "broker") as broker:
        made = Cluster(broker, tmp_path / "checkpoint")
        with made.admin:
            yield made


def told(offsets: Any) -> dict[str, dict[str, int]]:
    return {"t": {str(partition): offset for (_, partition), offset in offsets.items()}}


def test_batch_0_is_the_same_after_retention_moved(cluster: Cluster) -> None:
    """Batch 0 was [0, 10) and its query died in it. Retention deleted four records, the query was
    started again, Spark asked for the initial offsets again and got 4: four messages were lost
    without an error."""
    cluster.send(0, 10)
    assert cluster.driver().beginning() == {("t", 0): 0, ("t", 1): 0}
    cluster.expire(4)
    again = cluster.driver()
    start = again.beginning()
    assert start == {("t", 0): 0, ("t", 1): 0}
    with pytest.raises(UserError, match="t-0 holds the offsets 4 to 10, and the stream needs 0"):
        again.spans(told(start), told({("t", 0): 10, ("t", 1): 0}))
    # Whoever says so reads what is left.
    (span,) = cluster.driver(failOnDataLoss="false").spans(
        told(start), told({("t", 0): 10, ("t", 1): 0})
    )
    assert (span.start, span.end) == (4, 10)


def test_latest_is_the_same_offset_for_every_process(cluster: Cluster) -> None:
    """Two processes ask at the first start: what came between was in no batch."""
    first = cluster.driver(startingOffsets="latest").beginning()
    cluster.send(1, 5)
    assert cluster.driver(startingOffsets="latest").beginning() == first


def test_a_folder_of_another_stream(cluster: Cluster) -> None:
    cluster.driver().beginning()
    with pytest.raises(UserError, match="with the starting offsets earliest, and this one asks fo"):
        cluster.driver(startingOffsets="latest").beginning()


def test_limits_new_partitions_and_targets(cluster: Cluster) -> None:
    cluster.send(0, 30)
    driver = cluster.driver()
    start = driver.beginning()
    assert driver.until(start, 10, False) == {("t", 0): 10, ("t", 1): 0}
    assert driver.until(start, None, False) == {("t", 0): 30, ("t", 1): 0}
    driver.set_target()
    cluster.admin.create_partitions({"t": 3})
    cluster.send(2, 7)
    cluster.send(0, 1)
    end = driver.until(start, 1000, False)
    assert end == {("t", 0): 30, ("t", 1): 0}, "what came later is for the next run"
    assert driver.until(end, 1000, False) == end, "and this one ends"
    following = cluster.driver()
    assert following.until(end, None, False) == {("t", 0): 31, ("t", 1): 0, ("t", 2): 7}
    spans = following.spans(told(end), told({("t", 0): 31, ("t", 1): 0, ("t", 2): 7}))
    assert [(span.partition, span.start, span.end) for span in spans] == [(0, 30, 31), (2, 0, 7)]
    assert all(len(span.topic_id) == 36 for span in spans)


def test_it_waits_for_enough_but_not_for_ever(cluster: Cluster) -> None:
    cluster.send(0, 3)
    driver = cluster.driver(minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    start = driver.beginning()
    assert driver.until(start, None, True) == start
    cluster.send(0, 2)
    assert driver.until(start, None, True) == {("t", 0): 5, ("t", 1): 0}
    impatient = cluster.driver(minOffsetsPerTrigger="50", maxTriggerDelay="0ms")
    assert impatient.until(start, None, True) == {("t", 0): 5, ("t", 1): 0}
    last = cluster.driver(minOffsetsPerTrigger="50", maxTriggerDelay="1h")
    last.set_target()
    assert last.until(start, None, True) == {("t", 0): 5, ("t", 1): 0}, "AvailableNow ends"


def test_a_topic_made_anew_between_two_runs(cluster: Cluster) -> None:
    """Offsets do not say which topic they are of: a new one with more records was read from the
    middle on."""
    cluster.send(0, 5)
    cluster.driver().beginning()
    cluster.admin.delete_topic("t")
    cluster.admin.create_topic("t", 2)
    cluster.send(0, 20)
    at = {("t", 0): 5, ("t", 1): 0}
    with pytest.raises(UserError, match="t was deleted and made anew"):
        cluster.driver().until(at, None, False)
    with pytest.raises(UserError, match="t was deleted and made anew"):
        cluster.driver().spans(told(at), told({("t", 0): 10, ("t", 1): 0}))
    on = cluster.driver(failOnDataLoss="false")
    assert on.until(at, None, False) == {("t", 0): 20, ("t", 1): 0}
    cluster.admin.delete_topic("t")
    with pytest.raises(UserError, match="t-0 is gone"):
        cluster.driver().until(at, None, False)


def test_a_topic_that_came_later_and_was_made_anew(cluster: Cluster) -> None:
    options = {"subscribe": "", "subscribePattern": "t|u"}
    driver = cluster.driver(**options)
    start = driver.beginning()
    cluster.admin.create_topic("u", 1)
    cluster.send(0, 3, "u")
    end = driver.until(start, None, False)
    assert end["u", 0] == 3
    cluster.admin.delete_topic("u")
    cluster.admin.create_topic("u", 1)
    cluster.send(0, 9, "u")
    with pytest.raises(UserError, match="u was deleted and made anew"):
        cluster.driver(**options).until(end, None, False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "nowhere"}, "there is no topic nowhere"),
        ({"subscribe": "", "assign": '{"t": [0, 7]}'}, "there is no t-7"),
        (
            {"startingOffsets": '{"t": {"0": 9, "1": 0}}'},
            "t-0 ends at 0, and startingOffsets begins at 9",
        ),
        ({"startingOffsets": '{"t": {"0": 0}}'}, "startingOffsets says nothing of t-1"),
    ],
)
def test_where_it_cannot_begin(cluster: Cluster, options: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        cluster.driver(**options).beginning()
