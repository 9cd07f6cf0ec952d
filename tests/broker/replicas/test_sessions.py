"""The follower's side of fetch sessions, against the leader's real one."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tallymark.broker.fetch_sessions import FetchSessionCache
from tallymark.broker.replicas.fetch_requests import fetch_request
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.sessions import FollowerSession, Key, NextFetch
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.codec import encode
from tallymark.protocol.wire.fetch import PlainFetch, Replica, read_fetch
from tallymark.replication.following import Ask

VERSION = 18
TOPICS = (UUID(int=1), UUID(int=2))
NOT_FOUND = CODES["FETCH_SESSION_ID_NOT_FOUND"]
WRONG_EPOCH = CODES["INVALID_FETCH_SESSION_EPOCH"]

keys = st.tuples(st.sampled_from(TOPICS), st.integers(0, 3))
offsets = st.integers(0, 5)


def ask(offset: int, epoch: int = 3, last_epoch: int = 2) -> Ask:
    return Ask(1, epoch, offset, last_epoch, max(0, offset - 1), 0)


def on_the_wire(fetch: NextFetch) -> PlainFetch:
    """As the leader reads it."""
    request = fetch_request(fetch, Replica(7, 70), FetchSettings(), 500)
    return read_fetch(memoryview(encode(request, VERSION)), VERSION)


A, B = (TOPICS[0], 0), (TOPICS[1], 1)


def wanting(asks: Mapping[Key, Ask]) -> FollowerSession:
    session = FollowerSession()
    for key, each in asks.items():
        session.want(key, each)
    return session


def test_the_first_request_names_all_and_later_ones_what_has_changed() -> None:
    session = wanting({A: ask(0), B: ask(5)})
    first = session.next()
    assert (first.session_id, first.session_epoch, len(first.named)) == (0, 0, 2)
    assert session.answered(0, 77, [A, B]) is None
    session.want(A, ask(3))
    session.want(B, ask(5))
    assert session.next() == NextFetch(77, 1, ((A, ask(3)),), ())
    assert session.answered(0, 77, []) is None
    session.want(A, None)
    assert session.next() == NextFetch(77, 2, (), (A,))


def test_of_many_partitions_a_request_looks_at_those_that_have_changed() -> None:
    """Each request of a follower went over all of its 5,000 partitions: one that was written to
    took most of a processor, in the brokers that copied it."""
    session = wanting({(TOPICS[0], index): ask(0) for index in range(5_000)})
    session.next(5_000)
    session.answered(0, 77, [(TOPICS[0], index) for index in range(5_000)])
    session.want((TOPICS[0], 7), ask(1))
    assert len(session._changed) == 1
    assert session.next().named == (((TOPICS[0], 7), ask(1)),)


def test_a_leader_without_room_for_a_session_is_told_all_each_time() -> None:
    session = wanting({A: ask(0)})
    session.next()
    assert session.answered(0, 0, [A]) is None
    assert session.next() == NextFetch(0, 0, ((A, ask(0)),), ())


@pytest.mark.parametrize("room", [0, 77])
def test_very_many_new_partitions_come_in_parts(room: int) -> None:
    """With a session each request names the next ones, without it those before as well."""
    keys = [(TOPICS[0], index) for index in range(25)]
    session = wanting({key: ask(0) for key in keys})
    counts: list[int] = []
    while not counts or session.has_more:
        fetch = session.next(10)
        counts.append(len(fetch.named))
        assert session.answered(0, room, [key for key, _ in fetch.named]) is None
    assert counts == ([10, 10, 5] if room else [10, 20, 25])
    assert set(session.known) == set(keys)


def test_a_session_that_is_not_known_begins_anew_and_one_out_of_step_is_closed() -> None:
    session = wanting({A: ask(0)})
    session.next()
    session.answered(0, 77, [A])
    session.next()
    assert session.answered(WRONG_EPOCH, 0, []) == ("fetch session 77: INVALID_FETCH_SESSION_EPOCH")
    assert session.next() == NextFetch(77, 0, ((A, ask(0)),), ())
    session.answered(0, 78, [A])
    session.next()
    assert session.answered(NOT_FOUND, 0, []) is not None
    assert session.next() == NextFetch(0, 0, ((A, ask(0)),), ())


def test_another_connection_begins_without_a_session() -> None:
    session = wanting({A: ask(0)})
    session.next()
    session.answered(0, 77, [A])
    session.connection_closed()
    assert session.next() == NextFetch(0, 0, ((A, ask(0)),), ())


def test_the_epoch_begins_again_at_1_after_the_greatest() -> None:
    session = wanting({A: ask(0)})
    session.next()
    session.answered(0, 77, [A])
    session._epoch = 2**31 - 1
    session.want(A, ask(1))
    session.next()
    assert session.answered(0, 77, [A]) is None
    assert session.next().session_epoch == 1


@given(st.lists(keys, max_size=6), st.sampled_from((0, 77, 78)), st.booleans())
def test_an_answer_to_something_else_is_thrown_away(
    told: list[Key], answered_as: int, full: bool
) -> None:
    """An answer about partitions that were not asked for, or of another session, is one to another
    request, whatever it says."""
    session = wanting({A: ask(0), B: ask(0)})
    session.next()
    session.want(A, ask(1))
    if not full:
        session.answered(0, 77, [A, B])
        session.next()
    fits = set(told) <= {A, B} and len(set(told)) == len(told)
    fits &= set(told) == {A, B} if full else answered_as in (0, 77)
    assert (session.answered(0, answered_as, told) is None) == fits
    if not fits:
        again = session.next()
        assert again.is_full
        assert len(again.named) == 2


class BothSides(RuleBasedStateMachine):
    """Asks change, partitions come and go, requests and answers are lost, sessions are evicted:
    what the leader reads is always what the follower asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.asks: dict[Key, Ask] = {A: ask(0)}
        self.session = wanting(self.asks)
        self.cache = FetchSessionCache(slots=2)
        self.ids = 100
        self.served: dict[Key, Ask] | None = None
        self.wanted: dict[Key, Ask] = {}

    @rule(key=keys, offset=offsets)
    def change(self, key: Key, offset: int) -> None:
        self.asks[key] = ask(offset)
        self.session.want(key, self.asks[key])

    @rule(key=keys)
    def leave_out(self, key: Key) -> None:
        if len(self.asks) > 1:
            self.asks.pop(key, None)
            self.session.want(key, None)

    @rule()
    def evict(self) -> None:
        self.cache = FetchSessionCache(slots=2)

    @rule()
    def no_room(self) -> None:
        self.cache.slots = 0 if self.cache.slots else 2

    @rule(loss=st.sampled_from(("none", "request", "answer")))
    def fetch(self, loss: str) -> None:
        fetch = self.session.next()
        self.served = None
        if loss != "request":
            error, session_id, told = self.serve(on_the_wire(fetch))
        if loss != "none":
            self.session.connection_closed()
            self.served = None
            return
        why = self.session.answered(error, session_id, told)
        assert (why is None) == (error == 0)

    def serve(self, request: PlainFetch) -> tuple[int, int, list[Key]]:
        assert request.replica == Replica(7, 70)
        try:
            session = self.cache.continued(request, VERSION, 0)
        except KafkaError as error:
            return error.code, 0, []
        if session is not None:
            asked = [(topic, one.ask) for (topic, _), one in session.partitions.items()]
        else:
            self.ids += 1
            opened = self.cache.open(request, VERSION, 0, self.ids)
            asked = [(topic, each) for topic, asks in request.topics for each in asks]
            session = opened
        self.served = {
            (topic, one.partition): Ask(
                1,
                one.current_leader_epoch,
                one.fetch_offset,
                one.last_fetched_epoch,
                one.high_watermark,
                one.log_start_offset,
            )
            for topic, one in asked
            if isinstance(topic, UUID)
        }
        self.wanted = dict(self.asks)
        told = list(self.served) if request.session_epoch == 0 else []
        return 0, 0 if session is None else session.session_id, told

    @invariant()
    def the_leader_reads_what_is_asked_for(self) -> None:
        if self.served is not None:
            assert self.served == self.wanted


TestBothSides = BothSides.TestCase
