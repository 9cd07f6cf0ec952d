"""What becomes of produce requests on their way, and that all of it is written down."""

import random
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from drill_requests import TOPIC, request, sequences, stamped

from tallymark.protocol.messages import (
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tallymark.protocol.records.batch import Record, encode_batch, split_batches
from tallymark.protocol.records.writer import RecordInput
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.fault_injector import FaultInjector, swapped, with_feigned
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote
from tallymark_audit.proof.drill.faults.kinds import Order, read_orders, write_orders
from tallymark_audit.reporters.books.tally import ReporterIdentity, Tally

NOW = 10_000
HOP = "producer-to-dc1"


def meddler(*orders: Order) -> FaultInjector:
    made = FaultInjector(HOP, random.Random(1))
    made.orders = list(orders)
    return made


def order(kind: str, rate: float = 1.0, most: int = 1_000, seconds: float = 0.0) -> Order:
    return Order(kind, NOW, NOW + 1_000, rate, most, seconds)


def noted(notes: list[FaultNote]) -> list[int]:
    return [
        sequence
        for note in notes
        for first, last in note.sequences
        for sequence in range(first, last + 1)
    ]


def test_without_orders_everything_arrives_and_nothing_is_noted() -> None:
    passage = meddler().inject(request({0: range(5), 1: range(3)}), NOW)
    assert passage.request is not None
    assert sequences(passage.request) == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2]}
    assert (passage.feigned, passage.notes, passage.extra) == ([], [], [])


def test_an_order_holds_in_its_time_and_until_it_has_hit_something() -> None:
    """A mirror stood still while its hop's only fault was due: the drill proved nothing."""
    meddling, some = meddler(order(kinds.DROP)), request({0: range(5)})
    assert meddling.inject(some, NOW - 1).notes == []
    assert meddling.inject(some, NOW + 1_000).notes != []
    assert meddling.inject(some, NOW + 1_000).notes == []


def test_what_is_dropped_is_noted_and_all_else_arrives() -> None:
    passage = meddler(order(kinds.DROP, rate=0.5)).inject(request({0: range(200)}), NOW)
    assert passage.request is not None
    arrived = sequences(passage.request)[0]
    gone = noted(passage.notes)
    assert sorted(arrived + gone) == list(range(200))
    assert 50 < len(gone) < 150
    assert {(note.kind, note.hop, note.topic) for note in passage.notes} == {
        (kinds.DROP, HOP, TOPIC)
    }


def test_a_partition_of_which_nothing_is_left_is_answered_by_the_proxy() -> None:
    meddling = meddler(order(kinds.DROP_BATCH, most=1))
    passage = meddling.inject(request({0: range(5), 1: range(3)}), NOW)
    assert passage.request is not None
    assert passage.feigned == [(TOPIC, 0)]
    assert sequences(passage.request) == {1: [0, 1, 2]}
    answer = with_feigned(ProduceResponse(responses=[]), passage.feigned)
    ((part,),) = [topic.partition_responses for topic in answer.responses]
    assert (part.index, part.error_code) == (0, 0)


def test_a_request_of_which_nothing_is_left_does_not_reach_the_broker() -> None:
    passage = meddler(order(kinds.DROP)).inject(request({0: range(5)}), NOW)
    assert passage.request is None
    assert passage.feigned == [(TOPIC, 0)]
    assert noted(passage.notes) == [0, 1, 2, 3, 4]


def test_loss_and_duplication_in_one_batch() -> None:
    meddling = meddler(order(kinds.DROP, rate=0.3), order(kinds.DUPLICATE, rate=0.3))
    passage = meddling.inject(request({0: range(100)}), NOW)
    assert passage.request is not None
    arrived = sequences(passage.request)[0]
    gone = noted([note for note in passage.notes if note.kind == kinds.DROP])
    twice = noted([note for note in passage.notes if note.kind == kinds.DUPLICATE])
    assert gone
    assert twice
    assert sorted(arrived) == sorted([n for n in range(100) if n not in gone] + twice)


def test_a_request_is_sent_twice() -> None:
    passage = meddler(order(kinds.DUPLICATE_BATCH)).inject(request({0: range(4)}), NOW)
    assert passage.request is not None
    assert passage.extra == [passage.request]
    assert noted(passage.notes) == [0, 1, 2, 3]


def test_corrupt_values_are_noted_one_by_one() -> None:
    passage = meddler(order(kinds.CORRUPT, most=2)).inject(request({0: range(10)}), NOW)
    assert passage.request is not None
    changed = [
        place
        for place, record in enumerate(_records(passage.request))
        if record.value != stamped(place)[1]
    ]
    assert changed == noted(passage.notes) == [0, 1]


def test_lost_answers_and_delays_leave_the_request_as_it_is() -> None:
    meddling = meddler(order(kinds.LOST_ACK), order(kinds.DELAY, seconds=3.0))
    passage = meddling.inject(request({0: range(4)}), NOW)
    assert passage.hang_up
    assert passage.delay == 3.0
    assert passage.request is not None
    assert sequences(passage.request) == {0: [0, 1, 2, 3]}


def test_monitoring_events_are_a_matter_apart() -> None:
    events = request({0: range(2)}, topic=AUDIT_TOPIC)
    passage = meddler(order(kinds.DROP)).inject(events, NOW)
    assert passage.notes == []
    passage = meddler(order(kinds.DROP_EVENTS)).inject(events, NOW)
    assert passage.request is None
    data = meddler(order(kinds.DROP_EVENTS)).inject(request({0: range(3)}), NOW)
    assert data.notes == []


def test_what_mirrors_remember_passes_byte_for_byte() -> None:
    state = request({0: range(3)}, topic="_mirror_state")
    passage = meddler(order(kinds.DROP), order(kinds.DROP_EVENTS)).inject(state, NOW)
    assert passage.request is not None
    before = state.topic_data[0].partition_data[0].records
    assert bytes(passage.request.topic_data[0].partition_data[0].records or b"") == before


def test_two_requests_change_places_where_they_meet() -> None:
    one, other = request({0: range(3), 1: range(2)}), request({0: range(3, 6)})
    first, second = swapped(one, other)
    assert sequences(first) == {0: [3, 4, 5], 1: [0, 1]}
    assert sequences(second) == {0: [0, 1, 2]}


def test_records_vanish_on_the_way_to_a_consumer_and_leave_a_hole() -> None:
    (produced,) = request({0: range(100)}).topic_data[0].partition_data
    part = FetchResponsePartition(
        partition_index=0, error_code=0, high_watermark=100, records=produced.records
    )
    answer = FetchResponse(responses=[FetchResponseTopic(topic=TOPIC, partitions=[part])])
    meddling = meddler(order(kinds.DROP_FETCHED, rate=0.2))
    changed = meddling.inject_into_fetch(answer, TOPIC, NOW)
    (batch,) = split_batches(changed.responses[0].partitions[0].records or b"")
    batch.check_crc()
    gone = noted(meddling.taken)
    assert gone
    assert [record.offset for record in batch.records()] == [
        offset for offset in range(100) if offset not in gone
    ]
    assert meddler().inject_into_fetch(answer, TOPIC, NOW) is answer


def test_orders_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    assert read_orders(path) == []
    orders = [order(kinds.DROP, 0.25), order(kinds.DELAY, seconds=2.5)]
    write_orders(path, orders)
    assert read_orders(path) == orders


def _records(produced: ProduceRequest) -> list[Record]:
    part = produced.topic_data[0].partition_data[0]
    return [record for batch in split_batches(part.records or b"") for record in batch.records()]


def test_the_last_words_of_a_run_are_not_dropped() -> None:
    """On a busy machine a killed producer came back while monitoring events were dropped, and what
    it published of its journal was: its windows were UNKNOWN for good, as they have to be, and the
    drill called that a fault of the audit."""
    code = "aa" * 8
    for closed in (False, True):
        tally = Tally(ReporterIdentity(f"producer-{code}", "web", "app", code, 1_000, 0))
        values = [encode_event(event) for event in tally.report(NOW, NOW, closed)]
        passage = meddler(order(kinds.DROP_EVENTS)).inject(produced(values), NOW)
        assert (passage.request is not None) == closed
        assert bool(passage.notes) != closed


def events(numbers: Iterable[int]) -> ProduceRequest:
    return produced([b"event %d" % number for number in numbers])


def produced(values: Iterable[bytes]) -> ProduceRequest:
    rows: list[RecordInput] = [(b"producer-1", value, [], 1_000) for value in values]
    part = ProduceRequestPartition(index=0, records=encode_batch(rows))
    topics = [ProduceRequestTopic(name=AUDIT_TOPIC, partition_data=[part])]
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)


def values_in(produced: ProduceRequest | None) -> list[bytes]:
    assert produced is not None
    (topic,) = produced.topic_data
    (part,) = topic.partition_data
    (batch,) = split_batches(part.records or b"")
    batch.check_crc()
    return [record.value or b"" for record in batch.records()]


def test_one_bit_of_an_event_turns_and_its_mark_is_noted() -> None:
    meddling = meddler(order(kinds.FLIP_EVENTS))
    passage = meddling.inject(events([0]), NOW)
    (value,) = values_in(passage.request)
    bits = int.from_bytes(value) ^ int.from_bytes(b"event 0")
    assert bits.bit_count() == 1
    (note,) = passage.notes
    assert (note.kind, note.topic, note.instance) == (kinds.FLIP_EVENTS, AUDIT_TOPIC, "")
    assert noted([note]) == [zlib.crc32(value)]


def test_of_a_reporter_no_more_events_in_a_row_turn_than_it_makes_up_for() -> None:
    """A report repeats what the last three said: what four in a row have said is lost, and the
    audit cannot but say that it does not know."""
    meddling = meddler(order(kinds.FLIP_EVENTS))
    seen = [values_in(meddling.inject(events([number]), NOW).request) for number in range(9)]
    turned = [value != b"event %d" % number for number, (value,) in enumerate(seen)]
    assert turned == [True, True, False] * 3


@pytest.mark.parametrize("also", [(), (kinds.FLIP_EVENTS,)])
def test_of_a_reporter_no_more_events_in_a_row_are_dropped_than_it_makes_up_for(
    also: tuple[str, ...],
) -> None:
    """On a slow machine a proxy dropped four reports of one producer in a row and five of another.
    All their windows since were UNKNOWN, as they have to be, and the drill called that a fault of
    the audit."""
    meddling = meddler(order(kinds.DROP_EVENTS), *(order(kind) for kind in also))
    passages = [meddling.inject(events([number]), NOW) for number in range(9)]
    assert [one.request is None for one in passages] == [True, True, False] * 3
    arrived = [values_in(one.request) for one in passages if one.request is not None]
    assert arrived == [[b"event %d" % number] for number in (2, 5, 8)], (
        "none of these turns as well"
    )
    assert meddling.inject(events(range(3)), NOW).request is not None, "three in one batch"


def test_turned_bits_are_for_events_alone() -> None:
    passage = meddler(order(kinds.FLIP_EVENTS)).inject(request({0: range(5)}), NOW)
    assert passage.notes == []
