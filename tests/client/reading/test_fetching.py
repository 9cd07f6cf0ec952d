"""Reading from brokers that are slow, gone, or say nonsense: bounded, typed, nobody else waits."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, CorruptMessageError, KafkaError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import FetchResponsePartition
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker
from tallymark.testing.scripted_log import MemoryLog, read_partition


def fill(broker: ScriptedBroker, partition: int, count: int, size: int = 10) -> None:
    log = broker.log("t", partition)
    for n in range(log.end, log.end + count):
        log.append(split_batches(encode_batch([(None, b"%0*d" % (size, n), (), n)]))[0])


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as running:
        yield running


@pytest.fixture
def two(broker: ScriptedBroker) -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
    """Two brokers: the second one leads t-1."""
    with ScriptedBroker({"t": 2}) as other:
        other.topic_ids = dict(broker.topic_ids)
        broker.elsewhere["t", 1] = other.address
        fill(broker, 0, 3)
        fill(other, 1, 3)
        yield broker, other


def consumer(broker: ScriptedBroker, **settings: Any) -> SimpleConsumer:
    options: dict[str, Any] = {"request_timeout_ms": 3000}
    return SimpleConsumer(bootstrap_servers=broker.address, **(options | settings))


BOTH = [FetchSpec("t", 0, 0), FetchSpec("t", 1, 0)]


def ends(outcomes: list[Any]) -> list[Any]:
    return [
        one.name if isinstance(one, KafkaError) else one and one.next_offset for one in outcomes
    ]


def test_two_leaders_are_asked_at_once(two: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    with consumer(two[0]) as c:
        assert ends(c.multifetch(BOTH)) == [3, 3]
    assert [one.count(ApiKey.FETCH) for one in two] == [1, 1]


def test_a_slow_leader_does_not_keep_the_others_back(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    """A multifetch once waited for the slowest leader, for the whole request timeout. What that one
    answers in the end is not lost: who asks again gets it, without another request."""
    broker, slow = two
    slow.script(ApiKey.FETCH, Late(1.6))
    with consumer(broker) as c:
        outcomes = c.multifetch(BOTH, max_wait_ms=10)
        assert ends(outcomes) == [3, "REQUEST_TIMED_OUT"]
        assert f"t-1 at offset 0: {slow.address} has not answered yet" in str(outcomes[1])
        asked = [FetchSpec("t", 0, 3), BOTH[1]]
        assert ends(c.multifetch(asked, max_wait_ms=10)) == [3, 3]
    assert slow.count(ApiKey.FETCH) == 1


def test_a_slow_leader_alone_is_waited_for(two: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    broker, slow = two
    slow.script(ApiKey.FETCH, Late(1.3))
    with consumer(broker) as c:
        assert c.fetch("t", 1, 0, max_wait_ms=10).next_offset == 3


def test_a_dead_leader_is_an_error_of_its_partitions(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    broker, dead = two
    with consumer(broker) as c:
        assert ends(c.multifetch(BOTH)) == [3, 3]
        dead.stop()
        outcomes = c.multifetch(BOTH)
        assert ends(outcomes) == [3, "NETWORK_EXCEPTION"]
        dead.start()


def test_who_takes_what_is_ready_waits_for_nobody(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    broker, slow = two
    slow.script(ApiKey.FETCH, Late(1.5))
    with consumer(broker) as c:
        assert ends(c.multifetch_ready(BOTH)) == [3, None]
        fill(broker, 0, 2)
        assert ends(c.multifetch_ready([FetchSpec("t", 0, 3), BOTH[1]])) == [5, None]
        asked = [FetchSpec("t", 0, 5), BOTH[1]]
        while (found := ends(c.multifetch_ready(asked))) == [None, None]:
            pass
        assert found == [None, 3]
    assert slow.count(ApiKey.FETCH) == 1


def test_nothing_new_is_told_in_time_and_without_asking_all_the_time(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    asked = [FetchSpec("t", 0, 3), FetchSpec("t", 1, 3)]
    with consumer(two[0]) as c:
        for _ in range(3):
            assert c.multifetch_ready(asked, max_wait_ms=100) == [None, None]
    assert all(broker.count(ApiKey.FETCH) <= 5 for broker in two)


def test_what_was_just_read_is_in_the_next_request(broker: ScriptedBroker) -> None:
    """As soon as a partition had new records, the leader's other partitions were asked for alone.
    That request waited for their next records, up to half a second, and so did what came meanwhile
    to the partition that was just read: with two partitions and a message now and then, each of
    them was up to 500 ms late."""
    fill(broker, 0, 1)
    with consumer(broker) as c:
        at = [0, 0]
        for _ in range(3):
            asked = [FetchSpec("t", number, offset) for number, offset in enumerate(at)]
            answers = c.multifetch_ready(asked, max_wait_ms=2000)
            assert ends(answers) == [at[0] + 1, None]
            at[0] += 1
            fill(broker, 0, 1)
    assert [len(one) for one in partitions_asked(broker)] == [2, 2, 2]


def partitions_asked(broker: ScriptedBroker) -> list[list[int]]:
    """The partitions of each fetch, in order."""
    requests = [one for key, _, one in broker.requests if key is ApiKey.FETCH]
    return [
        [part.partition for topic in one.topics for part in topic.partitions] for one in requests
    ]


def test_what_was_read_longest_ago_is_asked_for_first() -> None:
    """A broker answers in the order of the request and with 50 MB at most: partitions behind fifty
    that always have more to read would never be read."""
    with ScriptedBroker({"t": 4}) as broker, consumer(broker) as c:
        at = [0, 0, 0, 0]
        for filled in (1, 0, 1, 3):
            fill(broker, filled, 1)
            asked = [FetchSpec("t", number, offset) for number, offset in enumerate(at)]
            answers = c.multifetch_ready(asked, max_wait_ms=2000)
            assert [number for number, one in enumerate(answers) if one is not None] == [filled]
            at[filled] += 1
    assert partitions_asked(broker) == [[0, 1, 2, 3], [0, 2, 3, 1], [2, 3, 1, 0], [2, 3, 0, 1]]


def test_ready_tells_errors_at_once(two: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    broker, other = two
    other.script(ApiKey.FETCH, Refuse(CODES["NOT_LEADER_OR_FOLLOWER"]))
    asked = [*BOTH, FetchSpec("nowhere", 0, 0)]
    found: dict[int, Any] = {}
    with consumer(broker) as c:
        while len(found) < 3:
            wanted = {n: spec for n, spec in enumerate(asked) if n not in found}
            answers = c.multifetch_ready(list(wanted.values()))
            found |= {n: a for n, a in zip(wanted, answers, strict=True) if a is not None}
    assert ends([found[n] for n in range(3)]) == [
        3,
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


def test_closing_ends_what_is_under_way(two: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    broker, slow = two
    slow.script(ApiKey.FETCH, Late(5.0), Late(5.0))
    with consumer(broker) as c:
        assert ends(c.multifetch_ready(BOTH)) == [3, None]
        assert ends(c.multifetch(BOTH, max_wait_ms=0)) == [3, "REQUEST_TIMED_OUT"]
        started = time.monotonic()
    assert time.monotonic() - started < 4


# --- nonsense -----------------------------------------------------------------------------------


def flip(data: memoryview) -> None:
    data[-1] ^= 1


def unknown_codec(data: memoryview) -> None:
    data[22] |= 7


def unknown_format(data: memoryview) -> None:
    data[16] = 9


def negative_size(data: memoryview) -> None:
    struct.pack_into(">i", data, 8, -5)


@pytest.mark.parametrize("spoil", [flip, unknown_codec, unknown_format, negative_size])
def test_what_stands_before_a_corrupt_batch_is_handed_out_first(
    broker: ScriptedBroker, spoil: Callable[[memoryview], None]
) -> None:
    """An answer with one bad batch was once refused whole, so the good ones before it could never
    be read."""
    fill(broker, 0, 5)
    spoil(broker.log("t").batches[3].data)
    with consumer(broker) as c:
        assert c.fetch("t", 0, 0).next_offset == 3
        with pytest.raises(CorruptMessageError) as caught:
            c.fetch("t", 0, 3)
        assert f"{broker.address}: t-0 at offset 3: " in str(caught.value)
        assert spoil is not unknown_codec or "the unknown codec 7" in str(caught.value)
        assert c.fetch("t", 0, 4).next_offset == 5


def test_a_message_larger_than_the_fetch_comes_all_the_same(broker: ScriptedBroker) -> None:
    fill(broker, 0, 3, size=100_000)
    with consumer(broker) as c:
        offset = 0
        while offset < 3:
            found = c.fetch("t", 0, offset, max_bytes=500)
            assert found.next_offset == offset + 1
            offset = found.next_offset


def test_a_broker_that_cuts_the_first_batch_is_no_endless_loop(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before KIP-74 cut a batch that was larger than the fetch. Nothing comes of asking
    again, and nothing says so: the reader stood still for ever."""

    def cut(log: MemoryLog, partition: int, offset: int, max_bytes: int) -> FetchResponsePartition:
        answer = read_partition(log, partition, offset, max_bytes)
        return replace(answer, records=bytes(answer.records or b"")[:70])

    fill(broker, 0, 1, size=1000)
    monkeypatch.setattr("tallymark.testing.scripted_broker.read_partition", cut)
    with consumer(broker) as c, pytest.raises(CorruptMessageError, match="give more max_bytes"):
        c.fetch("t", 0, 0)


def test_hanging_up_again_and_again_is_an_error_in_time(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.FETCH, *[HangUp()] * 100)
    with consumer(broker, request_timeout_ms=400) as c:
        with pytest.raises(KafkaError, match="NETWORK_EXCEPTION") as caught:
            c.fetch("t", 0, 0)
        assert f"t-0: {broker.address}" in str(caught.value) or broker.address in str(caught.value)


def test_isolation_is_asked_for(broker: ScriptedBroker) -> None:
    fill(broker, 0, 1)
    with consumer(broker, isolation="read_committed") as c:
        assert isinstance(c.multifetch([FetchSpec("t", 0, 0)])[0], Fetched)
        c.fetch("t", 0, 0, isolation="read_uncommitted")
        c.get_offsets_before("t", 0)
    levels = [
        message.isolation_level
        for key, _, message in broker.requests
        if key in (ApiKey.FETCH, ApiKey.LIST_OFFSETS)
    ]
    assert levels == [1, 0, 1]
