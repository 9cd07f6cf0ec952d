"""Unclean elections and cuts of committed records, as incidents of the store: brokers report them
in the topic ``_tallymark_incidents`` (drawn in :mod:`tallymark.broker.replicas.incidents`).

The topic is small and read from its start by each collector that comes into charge; what the store
has already is not added again. A client that may write to the topic can send anything, so what does
not look like a report is left out, and its texts are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, select

from tallymark.client import FetchSpec
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.protocol.records.batch import Record
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.model.log_reader import FetchedLike, LogReader, partitions_of
from tallymark_audit.store.counted.incidents import (
    GIVEN_UP,
    UNCLEAN_ELECTION,
    Incident,
    add_incident,
    saved_text,
)
from tallymark_audit.store.schema.tables import incidents

TOPIC: Final = "_tallymark_incidents"
FETCH_BYTES: Final = 1 << 20
EVERY_MS: Final = 5_000
_LONGEST: Final = 500
_MOST_EPOCHS: Final = 10


@dataclass(slots=True)
class ReplicationIncidents:
    """A chore of the collector in charge. ``keep_ms``: what is older is not added, since the store
    would forget it again."""

    reader: LogReader
    ledger: Ledger
    keep_ms: int
    name: str = "reading incidents of replication"
    every_ms: int = EVERY_MS
    _next: dict[int, int] = field(default_factory=dict[int, int])

    def step(self, now: int) -> None:
        """Add what is new. TallymarkError, SQLAlchemyError: not now."""
        topic = self.reader.topics_named([TOPIC]).get(TOPIC)
        if topic is None or isinstance(topic, KafkaError):
            return  # there was none yet
        for partition in partitions_of(topic):
            while (answer := self._fetch(partition)) is not None:
                self._add(answer, now)
                self._next[partition] = answer.next_offset

    def _fetch(self, partition: int) -> FetchedLike | None:
        """What follows what is known; None at the end."""
        at = self._next.get(partition, -1)
        if at < 0:
            (at,) = self.reader.get_offsets_before(TOPIC, partition, EARLIEST)
        spec = FetchSpec(TOPIC, partition, at, -1)
        (answer,) = self.reader.multifetch(
            [spec], max_bytes=FETCH_BYTES, max_wait_ms=0, min_bytes=0
        )
        if isinstance(answer, KafkaError):
            if answer.code == CODES["OFFSET_OUT_OF_RANGE"]:  # it was made anew, or was cut
                self._next.pop(partition, None)
                return None
            raise answer
        return answer if answer.next_offset > at else None

    def _add(self, answer: FetchedLike, now: int) -> None:
        found = [told for record in _records(answer) if (told := incident_of(record.value))]
        new = [(at, one) for at, one in found if now - self.keep_ms <= at]
        if not new:
            return
        with self.ledger.store.write() as connection:
            for at, one in new:
                if not _is_known(connection, self.ledger.cluster, one, at):
                    add_incident(connection, self.ledger.cluster, one, at)


def incident_of(value: bytes | None) -> tuple[int, Incident] | None:
    """When it happened (ms), and what; None: it is no report."""
    try:
        told = json.loads(value or b"")
        kind, topic, at = told["kind"], told["topic"], _whole(told["at"])
        if kind not in _TEXTS or not isinstance(topic, str) or at < 0:
            return None
        begin, end = _whole(told["from_offset"]), _whole(told["to_offset"])
        reason = _TEXTS[kind](told)
        place = topic[:_LONGEST], _whole(told["partition"])
        return at, Incident(kind, reason, *place, begin, max(begin, end))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _elected(told: Any) -> str:
    return (
        f"broker {_whole(told['broker'])} leads from leader epoch {_whole(told['leader_epoch'])} "
        f"on, elected although it may lack committed records: its log ended at offset "
        f"{_whole(told['from_offset'])} ({_epochs(told)}). Start the other brokers: they save what "
        "they cut"
    )


def _given_up(told: Any) -> str:
    folder, why = _text(told["folder"]), _text(told["why"])
    where = saved_text(folder) if folder else f"NOT saved: {why}"
    return (
        f"broker {_whole(told['broker'])} cut these offsets ({_epochs(told)}) for the leader of "
        f"epoch {_whole(told['leader_epoch'])}; "
        f"its high watermark was {_whole(told['high_watermark'])}; {where}"
    )


_TEXTS: Final = {UNCLEAN_ELECTION: _elected, GIVEN_UP: _given_up}


def _epochs(told: Any) -> str:
    pairs = [(_whole(epoch), _whole(offset)) for epoch, offset in told["epochs"][-_MOST_EPOCHS:]]
    if not pairs:
        return "no records"
    return "epochs: " + ", ".join(f"{epoch} from {offset}" for epoch, offset in pairs)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**63:
        raise ValueError(f"{value!r} is no number of a report")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value[:_LONGEST]


def _records(answer: FetchedLike) -> Iterator[Record]:
    for batch in answer.batches:
        if not batch.header.is_control:
            try:
                yield from batch.records(batch.usual_max_size)
            except CorruptRecordError:
                continue


def _is_known(connection: Connection, cluster: str, one: Incident, at: int) -> bool:
    c = incidents.c
    same = select(c.id).where(
        c.cluster == cluster,
        c.topic == one.topic,
        c.kind == one.kind,
        c.partition == one.partition,
        c.at == at,
        c.from_offset == one.from_offset,
        c.reason == one.reason,
    )
    return connection.execute(same.limit(1)).first() is not None
