"""What becomes of a produce request on its way: decided here, done by :mod:`.proxy`. No I/O, and
the time is an argument; chance comes from the seed.

A request is taken apart into partitions. Each partition's batches are passed on, changed, repeated
or withheld; :class:`Passage` says what goes to the broker and which partitions the proxy itself has
to answer for. Everything that is done is noted.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.messages import (
    FetchResponse,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.proof.drill.faults import batches, kinds
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, notes_of
from tallymark_audit.proof.drill.faults.kinds import Order
from tallymark_audit.proof.drill.faults.lost_reports import LostReports

TopicBatch: TypeAlias = tuple[str, Batch]
"""A batch with the name of its topic."""
_WHOLE: Final = (kinds.DELAY, kinds.LOST_ACK, kinds.DUPLICATE_BATCH)


@dataclass(slots=True)
class Passage:
    """What becomes of one request. ``request`` is None when nothing is left of it. ``feigned`` are
    partitions that the broker never sees, though the sender gets an acknowledgement. ``delay`` in
    seconds; ``hang_up``: end the connection instead of answering. ``notes``: what was done."""

    request: ProduceRequest | None
    feigned: list[TopicPartition] = field(default_factory=list[TopicPartition])
    extra: list[ProduceRequest] = field(default_factory=list[ProduceRequest])
    """Requests of our own that go to the broker behind it; their answers are dropped."""
    delay: float = 0.0
    hang_up: bool = False
    notes: list[FaultNote] = field(default_factory=list[FaultNote])


class FaultInjector:
    """Makes the faults of one hop, by orders that may be replaced at any time."""

    def __init__(self, hop: str, chance: random.Random) -> None:
        self.hop = hop
        self.orders: list[Order] = []
        self.taken: list[FaultNote] = []
        self._chance = chance
        self._hits: dict[Order, int] = {}
        self._lost_reports = LostReports()

    def inject(self, request: ProduceRequest, now: int) -> Passage:
        """Decide about one request; ``now`` in ms."""
        passage = Passage(None)
        topics: list[ProduceRequestTopic] = []
        for topic in request.topic_data:
            parts: list[ProduceRequestPartition] = []
            for part in topic.partition_data:
                left = self._records(topic.name, part.records or b"", now, passage)
                if left:
                    parts.append(replace(part, records=left))
                else:
                    passage.feigned.append((topic.name, part.index))
            if parts:
                topics.append(replace(topic, partition_data=parts))
        if topics:
            passage.request = replace(request, topic_data=topics)
            self._whole(passage.request, now, passage)
        return passage

    def reorders(self, request: ProduceRequest, now: int) -> bool:
        """Whether this request is to change places with the next one; noted by :meth:`inject`'s
        caller, who knows whether there was a next one."""
        name = request.topic_data[0].name if request.topic_data else ""
        orders = [one for one in self._active(now, name) if one.kind == kinds.REORDER]
        return any(self._hit(order) for order in orders)

    def inject_into_fetch(self, answer: FetchResponse, topic: str, now: int) -> FetchResponse:
        """The answer to a consumer of that topic, perhaps without some of its records; what was
        done is in :attr:`taken`."""
        orders = [o for o in self.orders if o.kind == kinds.DROP_FETCHED and o.holds(now)]
        if not orders:
            return answer
        responses = [
            replace(
                one,
                partitions=[
                    replace(part, records=self._fetched(part.records, orders, topic, now))
                    for part in one.partitions
                ],
            )
            for one in answer.responses
        ]
        return replace(answer, responses=responses)

    def _fetched(
        self, records: Buffer | None, orders: list[Order], topic: str, now: int
    ) -> Buffer | None:
        if not records:
            return records
        whole = split_batches(records)
        left: list[bytes] = []
        for batch in whole:
            places = {place for order in orders for place in self._places(order, batch)}
            hit = batches.picked(batch.records(), places) if places else []
            if hit:
                self.taken += notes_of(FaultNote(now, kinds.DROP_FETCHED, self.hop, topic), hit)
            left.append(batches.cut_out(batch, places) if hit else bytes(batch.data))
        return b"".join(left)

    def notes(self, kind: str, now: int, found: Iterable[TopicBatch]) -> list[FaultNote]:
        """What was done to all records of these batches."""
        return [
            note
            for topic, batch in found
            for note in notes_of(FaultNote(now, kind, self.hop, topic), batch.records())
        ]

    def _whole(self, request: ProduceRequest, now: int, passage: Passage) -> None:
        """Faults that hit a request as it is."""
        found = data_batches(request)
        if not found:
            return
        for order in self._active(now, found[0][0]):
            if order.kind not in _WHOLE or not self._hit(order):
                continue
            passage.notes += self.notes(order.kind, now, found)
            if order.kind == kinds.DELAY:
                passage.delay = order.seconds
            elif order.kind == kinds.LOST_ACK:
                passage.hang_up = True
            else:
                passage.extra.append(request)

    def _records(self, topic: str, records: Buffer, now: int, passage: Passage) -> bytes:
        """What is left of a partition's batches."""
        if not concerned(topic):
            return bytes(records)
        orders = self._active(now, topic)
        left = [self._batch(topic, one, orders, now, passage) for one in split_batches(records)]
        return b"".join(batch for batch in left if batch is not None)

    def _batch(
        self, topic: str, batch: Batch, orders: list[Order], now: int, passage: Passage
    ) -> bytes | None:
        """One batch after all the orders, each of which sees what the one before it has left."""
        current = batches.neutral(batch)
        lost: set[int] = set()
        for order in orders:
            (whole,) = split_batches(current)
            if order.kind in (kinds.DROP_BATCH, kinds.DROP_EVENTS):
                spared = order.kind == kinds.DROP_EVENTS and not self._may_be_lost(whole)
                if not spared and self._hit(order):
                    passage.notes += self.notes(order.kind, now, [(topic, whole)])
                    self._note_reports(topic, whole, set(range(whole.header.record_count)))
                    return None
                continue
            change = _CHANGES.get(order.kind)
            places = self._places(order, whole) if change else set()
            if order.kind == kinds.FLIP_EVENTS:
                lost = places = self._lost_reports.may_be_lost(list(whole.records()), places)
            if change and places:
                note = FaultNote(now, order.kind, self.hop, topic)
                changed = change(whole, places)
                if order.kind == kinds.FLIP_EVENTS:
                    passage.notes.append(replace(note, sequences=_marks(changed or b"", places)))
                else:
                    hit = batches.picked(whole.records(), places)
                    passage.notes += notes_of(note, hit)
                if changed is None:
                    return None
                current = changed
        self._note_reports(topic, batch, lost)
        return current

    def _may_be_lost(self, events: Batch) -> bool:
        """Whether the reports that follow can make up for all of these."""
        records = list(events.records())
        every = set(range(len(records)))
        return (
            not _has_last_words(events) and self._lost_reports.may_be_lost(records, every) == every
        )

    def _note_reports(self, topic: str, batch: Batch, lost: set[int]) -> None:
        if topic == AUDIT_TOPIC:
            self._lost_reports.note(list(batch.records()), lost)

    def _active(self, now: int, topic: str) -> list[Order]:
        return [one for one in self.orders if self._holds(one, now, topic)]

    def _holds(self, order: Order, now: int, topic: str) -> bool:
        """In its time; and later too, as long as there was nothing that it could have hit."""
        late = now >= order.end and not self._hits.get(order)
        return kinds.concerns(order.kind, topic) and (order.holds(now) or late)

    def _places(self, order: Order, batch: Batch) -> set[int]:
        count = range(batch.header.record_count)
        return {place for place in count if self._hit(order)}

    def _hit(self, order: Order) -> bool:
        if self._chance.random() >= order.rate or self._hits.get(order, 0) >= order.most:
            return False
        self._hits[order] = self._hits.get(order, 0) + 1
        return True


def _has_last_words(events: Batch) -> bool:
    """Whether a closing report is among them, of a run that ends or of a dead one's journal: it is
    said once, and nothing makes up for it (the windows stay UNKNOWN until it is retired)."""
    return any(_closes(record.value or b"") for record in events.records())


def _closes(value: bytes) -> bool:
    try:
        return decode_event(value).closed
    except RemoteProtocolError:
        return False


def _marks(changed: bytes, places: set[int]) -> RangeSet:
    """By which the events at these places of a batch are known again: the CRC-32 of each value."""
    (batch,) = split_batches(changed)
    hit = batches.picked(batch.records(), places)
    return RangeSet.of([zlib.crc32(record.value or b"") for record in hit])


def concerned(topic: str) -> bool:
    """Whether a topic's batches are looked at at all; what mirrors remember passes as it is."""
    return topic == AUDIT_TOPIC or not topic.startswith("_")


def data_batches(request: ProduceRequest) -> list[TopicBatch]:
    """Every batch of the request that holds messages, with its topic."""
    return [
        (topic.name, batch)
        for topic in request.topic_data
        if not topic.name.startswith("_")
        for part in topic.partition_data
        for batch in split_batches(part.records or b"")
    ]


_CHANGES: Final[dict[str, Callable[[Batch, set[int]], bytes | None]]] = {
    kinds.DROP: batches.without,
    kinds.DUPLICATE: batches.repeated,
    kinds.CORRUPT: batches.corrupted,
    kinds.FLIP_EVENTS: batches.flipped,
}


def with_feigned(response: ProduceResponse, feigned: Iterable[TopicPartition]) -> ProduceResponse:
    """The answer with those partitions as if they had been appended, at an unknown offset."""
    topics = list(response.responses)
    for name, index in feigned:
        part = ProduceResponsePartition(index=index, error_code=0, base_offset=-1)
        for at, topic in enumerate(topics):
            if topic.name == name:
                parts = [*topic.partition_responses, part]
                topics[at] = replace(topic, partition_responses=parts)
                break
        else:
            topics.append(ProduceResponseTopic(name=name, partition_responses=[part]))
    return replace(response, responses=topics)


def swapped(one: ProduceRequest, other: ProduceRequest) -> tuple[ProduceRequest, ProduceRequest]:
    """Two requests with the batches of the partitions that are in both exchanged; internal topics
    stay where they are."""
    ours, theirs = _records_of(one), _records_of(other)
    both = ours.keys() & theirs.keys()
    first = _with(one, {place: theirs[place] for place in both})
    return first, _with(other, {place: ours[place] for place in both})


def _records_of(request: ProduceRequest) -> dict[TopicPartition, Buffer | None]:
    return {
        (topic.name, part.index): part.records
        for topic in request.topic_data
        if not topic.name.startswith("_")
        for part in topic.partition_data
    }


def _with(
    request: ProduceRequest, records: Mapping[TopicPartition, Buffer | None]
) -> ProduceRequest:
    topics = [
        replace(
            topic,
            partition_data=[
                replace(part, records=records.get((topic.name, part.index), part.records))
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return replace(request, topic_data=topics)
