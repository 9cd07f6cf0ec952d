"""What a consumer group has processed: in hand, on the desk, in the books, against an oracle that
follows every message."""

from __future__ import annotations

from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.stamps import Stamp, decode_stamp, encode_stamp
from tallymark.client.reading.message import Message
from tallymark_audit.events.claim_book import fold
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.processing.ack_batcher import AckBatcher
from tallymark_audit.reporters.processing.books import ConsumerBooks
from tallymark_audit.reporters.processing.in_flight import InFlight
from tallymark_audit.reporters.processing.messages import consumed_message

W = 1000
PLACE = ("t", 0)
RUN = b"instance"


def message(offset: int, sequence: int | None, timestamp: int, partition: int = 0) -> Message:
    stamp = Stamp(RUN, 0, sequence, "web") if sequence is not None else None
    headers = (("tm", encode_stamp(stamp)),) if stamp else ()
    return Message("t", partition, offset, timestamp, b"k", b"value", headers, 0)


def new_books() -> ConsumerBooks:
    identity = ReporterIdentity("consumer-1", "app-1", "", "00" * 8, W, 0, kind="consumer")
    return ConsumerBooks(identity, "g", 1000, 10**9)


def run(first: int, count: int, offset: int, window: int = 0) -> SeenRun:
    key = CellKey("t", 0, window, "web", RUN.hex())
    return SeenRun(key, first, offset, count=count, bytes=count, min_timestamp=window + 1)


# -- in hand --------------------------------------------------------------------------------


def test_a_run_leaves_the_hand_as_far_as_it_is_processed() -> None:
    in_flight = InFlight()
    in_flight.take(PLACE, [run(10, 5, 100), run(15, 5, 105, W)])
    ((place, part),) = in_flight.done({PLACE: 103})
    assert (place, part.first, part.last, part.offset, part.bytes) == (PLACE, 10, 12, 100, 3)
    assert in_flight.oldest == 1
    rest = in_flight.done({PLACE: 110})
    assert [(one.first, one.last) for _, one in rest] == [(13, 14), (15, 19)]
    assert in_flight.oldest is None


def test_going_back_replaces_what_is_in_hand() -> None:
    in_flight = InFlight()
    in_flight.take(PLACE, [run(10, 5, 100)])
    in_flight.take(PLACE, [run(12, 5, 102)])
    assert [(one.first, one.last) for _, one in in_flight.done({PLACE: 200})] == [(10, 16)]


def test_what_follows_is_joined_so_that_a_healthy_stream_is_one_run() -> None:
    in_flight = InFlight()
    for at in range(0, 1000, 10):
        in_flight.take(PLACE, [run(at, 10, at)])
    ((_, one),) = in_flight.done({PLACE: 1000})
    assert (one.first, one.last, one.bytes) == (0, 999, 1000)


def test_a_full_hand_says_what_it_lets_go() -> None:
    in_flight = InFlight(most=2)
    gone = [in_flight.take(PLACE, [run(10 * at, 5, 10 * at)]) for at in range(4)]
    assert [[one.first for one in some] for some in gone] == [[], [], [0], [10]]


def test_a_cut_takes_out_of_the_hand_what_nobody_is_given_again() -> None:
    in_flight = InFlight()
    in_flight.take(PLACE, [run(10, 5, 100), run(30, 5, 105)])
    assert [(one.first, one.last) for one in in_flight.cut(PLACE, 103)] == [(13, 14), (30, 34)]
    assert in_flight.cut(PLACE, 103) == []
    assert in_flight.cut(("t", 9), 0) == []
    in_flight.take(PLACE, [run(50, 5, 103)])
    assert [(one.first, one.last) for _, one in in_flight.done({PLACE: 200})] == [
        (10, 12),
        (50, 54),
    ]


def test_what_is_given_up_is_not_processed() -> None:
    in_flight = InFlight()
    in_flight.take(PLACE, [run(10, 5, 100)])
    in_flight.drop([PLACE])
    assert in_flight.done({PLACE: 200}) == []


# -- messages of others ---------------------------------------------------------------------


def confluent(**changes: Any) -> Any:
    fields = {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": (1, 1234),
        "headers": [("tm", encode_stamp(Stamp(RUN, 3, 9, "web")))],
        "key": None,
        "value": b"12345",
        "error": None,
    } | changes
    return SimpleNamespace(**{name: (lambda value=value: value) for name, value in fields.items()})


def test_messages_of_every_client() -> None:
    stamp = encode_stamp(Stamp(RUN, 3, 9, "web"))
    theirs = consumed_message(confluent())
    assert theirs is not None
    assert theirs == (("t", 0), 7, 1234, stamp, 5)
    record = SimpleNamespace(
        topic="t", partition=0, offset=7, timestamp=1234, key=None, value=b"12345",
        headers=[("tm", b"old"), ("x", b""), ("tm", stamp)],
    )  # fmt: skip
    assert consumed_message(record) == theirs
    assert consumed_message(("t", 0, {"tm": stamp}, 1234)) == (("t", 0), -1, 1234, stamp, 0)


@pytest.mark.parametrize(
    "hostile",
    [
        *(None, 7, (), ("t",), ("t", "0", [], 1), ("t", -1, [], 1), ("t", 0, [()], 1)),
        *(("t", 0, 5, 1), ("t", 0, [], "now"), ("t", 0, [], 1 << 70), (None, 0, [], 1)),
        confluent(error="Broker: end of partition"),
        confluent(timestamp=None, topic=None),
    ],
)
def test_what_is_no_message_is_none(hostile: Any) -> None:
    assert consumed_message(hostile) is None


NO_STAMPS = st.binary(max_size=300).filter(lambda raw: decode_stamp(raw) is None)


@given(st.one_of(st.none(), st.text(), NO_STAMPS))
def test_a_stamp_that_cannot_be_read_is_counted_as_malformed(raw: Any) -> None:
    books, ack_batcher = new_books(), AckBatcher(W)
    found = consumed_message(("t", 4, [("tm", raw)], 5))
    assert found is not None
    ack_batcher.done(found, Outcome.ACKNOWLEDGED)
    for done in ack_batcher.settle():
        books.add(done.run, done.place, 0)
    ((cell,),) = [event.cells for event in books.report(0, 0)]
    assert (cell.partition, cell.instance, cell.unstamped, cell.malformed) == (4, "", 1, 1)


# -- the books ------------------------------------------------------------------------------


def test_a_message_that_comes_again_is_a_duplicate() -> None:
    books = new_books()
    books.add(run(0, 10, 0), PLACE, 0)
    books.add(run(5, 10, 5), PLACE, 0)
    ((cell,),) = [event.cells for event in books.report(0, 0)]
    assert (str(cell.acknowledged), cell.duplicates) == ("0-14", 5)


def test_progress_is_told_with_every_report() -> None:
    books = new_books()
    books.add(run(0, 10, 0), PLACE, 0)
    books.processed_before({PLACE: 10})
    books.processed_before(
        {PLACE: 4}
    )  # the application went back: it will come to the rest once more
    (event,) = books.report(0, 0)
    assert (event.kind, event.tier, event.consumer_group) == ("consumer", "consumer", "g")
    ((topic, partition, offset, records),) = [
        (one.topic, one.partition, one.through_offset, one.records) for one in event.copied
    ]
    assert (topic, partition, offset, records) == ("t", 0, 4, 10)


def test_memory_is_bounded_and_says_so() -> None:
    books = new_books()
    books.tally.max_cells = 10
    for window in range(50):
        books.add(run(window, 1, window, window * W), PLACE, 0)
    (event,) = books.report(0, 10**9, closed=True)
    assert len(event.cells) == 10
    assert (event.closed, event.complete_through) == (False, 10 * W + 1)


LOG = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 20)), st.integers(0, 3 * W)), max_size=25
)
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["fetch", "done", "filter", "report", "lose"]), st.integers(0, 30)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(LOG, STEPS)
def test_the_reports_are_what_the_application_did(
    log: list[tuple[int | None, int]], steps: list[Step]
) -> None:
    """Any order of fetching, processing, leaving out, reporting and losing reports."""
    books, ack_batcher = new_books(), AckBatcher(W)
    events = []
    open_, processed, filtered = [], Counter[Any](), defaultdict[Any, set[int]](set)
    bare: Counter[Any] = Counter()
    at = 0

    def settle() -> None:
        for done in ack_batcher.settle():
            books.add(done.run, done.place, 0, done.outcome)
        books.processed_before(ack_batcher.positions)

    for what, number in steps:
        if what == "fetch" and at < len(log):
            sequence, timestamp = log[at]
            open_.append(message(at, sequence, timestamp))
            found = consumed_message(open_[-1])
            assert found is not None
            ack_batcher.put(found)
            at += 1
        elif what in ("done", "filter") and open_:
            one = open_.pop(number % len(open_))
            found = consumed_message(one)
            assert found is not None
            outcome = Outcome.ACKNOWLEDGED if what == "done" else Outcome.FILTERED
            for done in ack_batcher.done(found, outcome):
                books.add(done.run, done.place, 0, done.outcome)
            window, sequence = one.timestamp - one.timestamp % W, log[one.offset][0]
            if sequence is None:
                bare[window] += 1
            elif what == "done":
                processed[window, sequence] += 1
            else:
                filtered[window].add(sequence)
        elif what in ("report", "lose"):
            settle()
            lows = [one.timestamp for one in open_]
            assert ack_batcher.oldest == min(lows, default=None)
            reported = books.report(0, 0)
            if what == "report":
                events += reported
                for event in reported:
                    books.tally.published(event.event_number)
    settle()
    events += books.report(0, 0, closed=True)
    claims = {claim.key.window: claim for claim in fold(events).processed("g") if claim.key.stamped
              and claim.key.server == "web"}  # fmt: skip
    for window in range(0, 4 * W, W):
        claim = claims.get(window)
        mine = {n for (w, n), _ in processed.items() if w == window}
        assert (set(_numbers(claim.acknowledged)) if claim else set()) == mine
        times = Counter({n: c - 1 for (w, n), c in processed.items() if w == window and c > 1})
        again = Counter(n for level in claim.again for n in _numbers(level)) if claim else Counter()
        assert (again, claim.duplicate_count if claim else 0) == (times, times.total())
        left_out = set(_numbers(claim.filtered)) if claim else set()
        assert left_out <= filtered[window]
        assert filtered[window] <= left_out | mine
    told_bare = {
        c.key.window: c.unstamped for c in fold(events).processed("g") if c.key.server != "web"
    }
    assert told_bare == dict(bare)
    copied = {one.partition: one.through_offset for one in events[-1].copied}
    untouched = [one.offset for one in open_]
    assert copied.get(0, 0) <= min(untouched, default=len(log))


def _numbers(ranges: Any) -> list[int]:
    return [n for first, last in ranges for n in range(first, last + 1)]
