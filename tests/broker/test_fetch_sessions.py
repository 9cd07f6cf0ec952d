"""Fetch sessions (KIP-227): the cache as a value, and over a real socket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tallymark.broker.fetch_sessions import FetchSessionCache, grouped
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.wire.fetch import Ask, Found, PlainFetch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

VERSION = 12


def request(
    session: int, epoch: int, partitions: dict[int, int], forgotten: tuple[int, ...] = ()
) -> PlainFetch:
    """A request for partition -> offset of the topic "t"."""
    asks = [Ask(index, -1, offset, -1, 1000) for index, offset in partitions.items()]
    topics: list[Any] = [("t", asks)] if asks else []
    return PlainFetch(0, 1, 1000, 0, session, epoch, topics, [("t", forgotten)])


def refusal(cache: FetchSessionCache, plain: PlainFetch, version: int = VERSION) -> int:
    with pytest.raises(KafkaError) as caught:
        cache.continued(plain, version, 0)
    return caught.value.code


def opened(cache: FetchSessionCache, session: int, size: int, now_ms: int = 0) -> bool:
    plain = request(0, 0, dict.fromkeys(range(size), 0))
    assert cache.continued(plain, VERSION, now_ms) is None
    return cache.open(plain, VERSION, now_ms, session) is not None


def test_a_request_that_is_lost_or_comes_twice_is_noticed() -> None:
    cache = FetchSessionCache()
    assert opened(cache, 7, 1)
    assert cache.continued(request(7, 1, {}), VERSION, 0) is not None
    assert refusal(cache, request(7, 1, {})) == CODES["INVALID_FETCH_SESSION_EPOCH"]
    assert refusal(cache, request(7, 3, {})) == CODES["INVALID_FETCH_SESSION_EPOCH"]
    assert cache.continued(request(7, 2, {}), VERSION, 0) is not None
    assert refusal(cache, request(8, 1, {})) == CODES["FETCH_SESSION_ID_NOT_FOUND"]
    assert refusal(cache, request(0, 1, {})) == CODES["FETCH_SESSION_ID_NOT_FOUND"]


def test_epochs_begin_again_at_one() -> None:
    cache = FetchSessionCache()
    opened(cache, 7, 1)
    session = cache.continued(request(7, 1, {}), VERSION, 0)
    assert session is not None
    session.epoch = 2**31 - 1
    assert cache.continued(request(7, 2**31 - 1, {}), VERSION, 0) is session
    assert cache.continued(request(7, 1, {}), VERSION, 0) is session


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    cache = FetchSessionCache()
    opened(cache, 7, 1)
    code = refusal(cache, request(7, 1, {}), version=13)
    assert code == CODES["FETCH_SESSION_TOPIC_ID_ERROR"]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_session_ends_when_it_is_replaced_or_closed(epoch: int) -> None:
    cache = FetchSessionCache()
    opened(cache, 7, 1)
    assert cache.continued(request(7, epoch, {0: 5}), VERSION, 0) is None
    assert 7 not in cache


def test_a_session_that_has_forgotten_all_ends() -> None:
    cache = FetchSessionCache()
    opened(cache, 7, 2)
    assert cache.continued(request(7, 1, {}, (0, 1)), VERSION, 0) is None
    assert len(cache) == 0


def test_who_wants_no_session_gets_none() -> None:
    cache = FetchSessionCache()
    assert cache.open(request(0, -1, {0: 0}), VERSION, 0, 7) is None
    assert cache.open(request(0, 0, {}), VERSION, 0, 7) is None


def test_a_full_cache_keeps_what_is_young_used_and_large() -> None:
    """Kafka's rule: first the one that was not used for two minutes, then the smallest that has
    stood as long, if the new one is larger."""
    cache = FetchSessionCache(slots=2, evict_after_ms=1000)
    assert opened(cache, 1, 5)
    assert opened(cache, 2, 3)
    assert not opened(cache, 3, 100, now_ms=500), "all are young"
    for session in (2, 1):
        assert cache.continued(request(session, 1, {}), VERSION, 1500) is not None
    assert not opened(cache, 3, 3, now_ms=1600), "not worth more than the smallest"
    assert opened(cache, 3, 4, now_ms=1600)
    assert 2 not in cache
    assert opened(cache, 4, 1, now_ms=2600), "1 was not used for more than a second"
    assert (1 in cache, 3 in cache, cache.evicted) == (False, True, 2)


def test_what_was_sent_goes_to_the_end_of_the_order() -> None:
    """Without that the first partitions would fill every answer, and the last starve."""
    cache = FetchSessionCache()
    opened(cache, 7, 3)
    session = cache.continued(request(7, 1, {}), VERSION, 0)
    assert session is not None
    session.changes([("t", Found(0, 0, 9, 9, 0, b"records")), ("t", Found(1, 0, 9, 9, 0, b""))])
    assert [index for _, index in session.partitions] == [1, 2, 0]


def test_an_error_is_told_again_until_it_is_gone() -> None:
    cache = FetchSessionCache()
    opened(cache, 7, 1)
    session = cache.continued(request(7, 1, {}), VERSION, 0)
    assert session is not None
    fine, failed = ("t", Found(0, 0, 9, 9, 0, b"")), ("t", Found(0, 6, -1, -1, -1, b""))
    assert session.changes([fine]) == [fine]
    assert session.changes([fine]) == []
    assert session.changes([failed]) == [failed]
    assert session.changes([failed]) == [failed]
    assert session.changes([fine]) == [fine]


class Sessions(RuleBasedStateMachine):
    """A reader that follows a session knows of every partition what a full fetch would tell it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = FetchSessionCache(slots=1, evict_after_ms=10)
        self.now_ms = 0
        self.ends = dict.fromkeys(range(4), 0)
        self.starts = dict.fromkeys(range(4), 0)
        self.failing: set[int] = set()
        self.wanted = {0: 0, 1: 0}  # partition -> the reader's offset
        self.told: dict[int, tuple[int, int, int]] = {}  # error, high watermark, log start
        self.session, self.epoch = 0, 0
        self.sent: dict[int, int] = {}  # what the broker knows of our wishes
        self.behind = True

    def answer(self, asks: list[Ask]) -> list[tuple[str, Found]]:
        return [("t", self.read(ask)) for ask in asks]

    def read(self, ask: Ask) -> Found:
        index = ask.partition
        if index in self.failing:
            return Found(index, 6, -1, -1, -1, b"")
        news = b"r" * max(0, self.ends[index] - ask.fetch_offset)
        return Found(index, 0, self.ends[index], self.ends[index], self.starts[index], news)

    @rule()
    def fetch(self) -> None:
        changed = {i: o for i, o in self.wanted.items() if self.sent.get(i) != o}
        gone = tuple(i for i in self.sent if i not in self.wanted)
        plain = request(self.session, self.epoch, changed, gone)
        try:
            session = self.cache.continued(plain, VERSION, self.now_ms)
        except KafkaError:
            self.session, self.epoch, self.sent = 0, 0, {}
            return
        if session is not None:
            found: Any = session.changes(
                self.answer([each.ask for each in session.partitions.values()])
            )
            self.epoch += 1
        else:
            assert self.epoch == 0 or not self.wanted
            found = self.answer(plain.topics[0][1] if plain.topics else [])
            session = self.cache.open(plain, VERSION, self.now_ms, self.now_ms + 1)
            if session is not None:
                session.changes(found)
            self.session, self.epoch = (0, 0) if session is None else (session.session_id, 1)
        self.sent = dict(self.wanted) if self.session else {}
        for _, partitions in grouped(found):
            for each in partitions:
                self.told[each.partition] = (
                    each.error_code,
                    each.high_watermark,
                    each.log_start_offset,
                )
                if each.partition in self.wanted:
                    self.wanted[each.partition] += len(each.records)
        self.behind = False

    @rule(index=st.integers(0, 3), count=st.integers(1, 3))
    def append(self, index: int, count: int) -> None:
        self.ends[index] += count
        self.behind = True

    @rule(index=st.integers(0, 3))
    def delete_records(self, index: int) -> None:
        self.starts[index] = self.ends[index]
        self.behind = True

    @rule(index=st.integers(0, 3))
    def fail_or_mend(self, index: int) -> None:
        self.failing ^= {index}
        self.behind = True

    @rule(index=st.integers(0, 3))
    def subscribe_or_not(self, index: int) -> None:
        if index in self.wanted:
            del self.wanted[index]
        else:
            self.wanted[index] = self.starts[index]
        self.behind = True

    @rule(size=st.integers(1, 4), wait_ms=st.integers(0, 30))
    def another_reader_comes(self, size: int, wait_ms: int) -> None:
        self.now_ms += wait_ms
        opened(self.cache, 1_000_000 + self.now_ms, size, self.now_ms)
        self.now_ms += 1

    @invariant()
    def the_reader_knows_all(self) -> None:
        if self.behind:
            return
        for index in self.wanted:
            true = self.read(Ask(index, -1, 0, -1, 1000))
            assert self.told[index] == (
                true.error_code,
                true.high_watermark,
                true.log_start_offset,
            )
            if index not in self.failing:
                assert self.wanted[index] == max(self.ends[index], self.wanted[index])


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


# --- over a socket


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), num_partitions=3) as running:
        yield running


def topic_id(wire: WireClient, name: str) -> uuid.UUID:
    return (
        wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].topic_id
    )


def produce(wire: WireClient, topic: str, index: int, value: bytes) -> None:
    part = ProduceRequestPartition(index=index, records=encode_batch([(None, value, (), 5)]))
    asked = ProduceRequest(
        acks=1, topic_data=[ProduceRequestTopic(name=topic, partition_data=[part])]
    )
    assert wire.ask(asked, 9).responses[0].partition_responses[0].error_code == 0


def fetch(
    wire: WireClient,
    version: int,
    topic: str,
    identity: uuid.UUID,
    session: tuple[int, int],
    offsets: dict[int, int],
    forgotten: tuple[int, ...] = (),
) -> tuple[FetchResponse, dict[int, int]]:
    """The answer, and how many bytes came of which partition."""
    parts = [
        FetchRequestPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
        for index, offset in offsets.items()
    ]
    answer = wire.ask(
        FetchRequest(
            max_wait_ms=50,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchRequestTopic(topic=topic, topic_id=identity, partitions=parts)]
            if parts
            else [],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(topic=topic, topic_id=identity, partitions=forgotten)
            ]
            if forgotten
            else [],
        ),
        version,
    )
    return answer, {
        part.partition_index: len(part.records or b"")
        for each in answer.responses
        for part in each.partitions
    }


@pytest.mark.parametrize("version", range(7, 17))
def test_a_session_tells_news_only(wire: WireClient, version: int) -> None:
    topic = f"t{version}"
    identity = topic_id(wire, topic)
    produce(wire, topic, 1, b"first")
    answer, found = fetch(wire, version, topic, identity, (0, 0), {0: 0, 1: 0, 2: 0})
    session = answer.session_id
    assert session > 0
    assert (found[0], found[1] > 0, found[2]) == (0, True, 0)
    assert fetch(wire, version, topic, identity, (session, 1), {1: 1})[1] == {}
    produce(wire, topic, 2, b"second")
    answer, found = fetch(wire, version, topic, identity, (session, 2), {})
    assert (answer.session_id, list(found)) == (session, [2])
    produce(wire, topic, 0, b"third")
    assert fetch(wire, version, topic, identity, (session, 3), {2: 1}, (0,))[1] == {}
    again = fetch(wire, version, topic, identity, (session, 3), {})[0]
    assert again.error_code == CODES["INVALID_FETCH_SESSION_EPOCH"]
    answer, found = fetch(wire, version, topic, identity, (session, -1), {0: 0})
    assert (answer.session_id, list(found)) == (0, [0])
    gone = fetch(wire, version, topic, identity, (session, 4), {})[0]
    assert gone.error_code == CODES["FETCH_SESSION_ID_NOT_FOUND"]


def test_a_topic_that_is_deleted_is_news(wire: WireClient) -> None:
    identity = topic_id(wire, "doomed")
    answer, _ = fetch(wire, 12, "doomed", identity, (0, 0), {0: 0, 1: 0})
    session = answer.session_id
    wire.ask(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=5000), 5)
    for epoch in (1, 2):
        answer, _ = fetch(wire, 12, "doomed", identity, (session, epoch), {})
        codes = [part.error_code for each in answer.responses for part in each.partitions]
        assert codes == [CODES["UNKNOWN_TOPIC_OR_PARTITION"]] * 2
