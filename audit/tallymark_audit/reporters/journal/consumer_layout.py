"""The entries that only the journal of a consumer has: the calls of a
:class:`~tallymark_audit.reporters.processing.processing.Processing`, in order. The file and the
other entries: :mod:`.layout`.

::

    kind         payload
    HANDED_OUT   place i32, partition i32, window, first, offset, count, bytes, min ts, max ts i64,
                 malformed u32, skewed u32, then topic, 0, server, 0, instance
    DONE         place i32, offset i64, now i64, topic
    MESSAGE      place i32, offset i64, timestamp i64, size i64, now i64, outcome u8 (0: fetched),
                 length of the stamp i16 (-1: none), stamp, topic
    SETTLED      now i64
    RELEASED     place i32, done i64, last i64, now i64, topic
    CUT          place i32, offset i64, now i64, topic
    VIEW         place i32, slot u32, topic
    HELD         JSON of what is in flight and in the batcher of acknowledgements, of the progress
                 and the slots (of a compacted journal)

``place`` is the partition a message was read from, ``partition`` the one of its stamp.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final
from zlib import crc32

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal.layout import ENTRY_FIELDS, entry
from tallymark_audit.reporters.processing.ack_batcher import AckBatcherState
from tallymark_audit.reporters.processing.messages import ConsumedMessage
from tallymark_audit.reporters.processing.processing import InFlightMark, Processing

RUN_FIELDS: Final = struct.Struct("<iiqqqqqqqII")
DONE_FIELDS: Final = struct.Struct("<iqq")
MESSAGE_FIELDS: Final = struct.Struct("<iqqqqBh")
SETTLED_FIELDS: Final = struct.Struct("<q")
RELEASED_FIELDS: Final = struct.Struct("<iqqq")
VIEW_FIELDS: Final = struct.Struct("<iI")
LONGEST_STAMP: Final = 400
"""No stamp that can be read is longer: a server's name has at most 255 bytes."""
FETCHED: Final = 0
"""In place of an outcome: the application has the message, and is not done with it."""


_MESSAGE_BODY: Final = struct.Struct("<IBiqqqqBh")
"""The entry of every message, packed in one call: length and kind before the fields."""


class ConsumerKind(IntEnum):
    """Beside those of :class:`tallymark_audit.reporters.journal.layout.Kind`."""

    HANDED_OUT = 32
    DONE = 33
    MESSAGE = 34
    SETTLED = 35
    RELEASED = 36
    CUT = 37
    VIEW = 38
    HELD = 39


_MESSAGE: Final = int(ConsumerKind.MESSAGE)


def handed_out_entry(place: TopicPartition, run: SeenRun) -> bytes:
    key = run.key
    fields = RUN_FIELDS.pack(
        place[1],
        key.partition,
        key.window,
        run.first,
        run.offset,
        run.count,
        run.bytes,
        run.min_timestamp,
        run.max_timestamp,
        run.malformed,
        run.skewed,
    )
    whose = "\0".join((key.topic, key.server, key.instance))
    return entry(ConsumerKind.HANDED_OUT, fields + whose.encode())


def read_run(payload: bytes) -> tuple[TopicPartition, SeenRun]:
    """What :func:`handed_out_entry` wrote."""
    place, partition, window, *numbers = RUN_FIELDS.unpack_from(payload)
    first, offset, count, size, low, high, malformed, skewed = numbers
    topic, server, instance = payload[RUN_FIELDS.size :].decode().split("\0")
    key = CellKey(topic, partition, window, server, instance)
    run = SeenRun(key, first, offset, count=count, bytes=size, malformed=malformed, skewed=skewed)
    run.min_timestamp, run.max_timestamp = low, high
    return (topic, place), run


def done_entry(
    place: TopicPartition, offset: int, now_ms: int, kind: int = ConsumerKind.DONE
) -> bytes:
    """Also of a log that was cut (CUT)."""
    return entry(kind, DONE_FIELDS.pack(place[1], offset, now_ms) + place[0].encode())


def message_entry(message: ConsumedMessage, outcome: int, now_ms: int) -> bytes:
    (topic, partition), offset, timestamp, stamp, size = message
    if stamp is not None and len(stamp) > LONGEST_STAMP:
        stamp = b""  # neither can be read
    length = -1 if stamp is None else len(stamp)
    rest = (stamp or b"") + topic.encode()
    body = _MESSAGE_BODY.pack(
        MESSAGE_FIELDS.size + len(rest),
        _MESSAGE,
        partition,
        offset,
        timestamp,
        size,
        now_ms,
        outcome,
        length,
    )
    body += rest
    return crc32(body).to_bytes(4, "little") + body


def read_message(payload: bytes) -> tuple[ConsumedMessage, int, int]:
    """The message, its outcome (or FETCHED) and when."""
    fields = MESSAGE_FIELDS.unpack_from(payload)
    partition, offset, timestamp, size, now, outcome, length = fields
    start = MESSAGE_FIELDS.size
    end = start + max(0, length)
    stamp = payload[start:end] if length >= 0 else None
    return (
        ConsumedMessage((payload[end:].decode(), partition), offset, timestamp, stamp, size),
        outcome,
        now,
    )


def settled_entry(now_ms: int) -> bytes:
    return entry(ConsumerKind.SETTLED, SETTLED_FIELDS.pack(now_ms))


def released_entry(place: TopicPartition, mark: InFlightMark, now_ms: int) -> bytes:
    fields = RELEASED_FIELDS.pack(place[1], mark.done, mark.last, now_ms)
    return entry(ConsumerKind.RELEASED, fields + place[0].encode())


def view_entry(place: TopicPartition, slot: int) -> bytes:
    return entry(ConsumerKind.VIEW, VIEW_FIELDS.pack(place[1], slot) + place[0].encode())


def held_entry(processing: Processing, slots: Mapping[TopicPartition, int]) -> bytes:
    ack_batcher = processing.ack_batcher.state()
    state = {
        "hand": _runs(processing.in_flight.runs()),
        "open": [
            [*place, int(outcome), _run_entry(place, run)]
            for (place, _, _, outcome), run in ack_batcher.open.items()
        ],
        "pending": [[*place, list(open_.items())] for place, open_ in ack_batcher.pending.items()],
        "next": [[*place, offset] for place, offset in ack_batcher.next.items()],
        "progress": [[*place, *at] for place, at in processing.books.progress.items()],
        "slots": [[*place, slot] for place, slot in slots.items()],
    }
    return entry(ConsumerKind.HELD, json.dumps(state).encode())


def restore_held(payload: bytes, processing: Processing) -> dict[TopicPartition, int]:
    """Put into ``processing`` what :func:`held_entry` wrote; returns the slots."""
    state: dict[str, Any] = json.loads(payload)
    for text in state["hand"]:
        place, run = read_run(bytes.fromhex(text))
        processing.in_flight.take(place, [run])
    open_: dict[tuple[TopicPartition, str, int, Outcome], SeenRun] = {}
    for topic, partition, outcome, text in state["open"]:
        _, run = read_run(bytes.fromhex(text))
        key = (topic, partition), run.key.instance, run.key.partition, Outcome(outcome)
        open_[key] = run
    pending = {(topic, at): dict(some) for topic, at, some in state["pending"]}
    following = {(topic, at): offset for topic, at, offset in state["next"]}
    processing.ack_batcher.restore(AckBatcherState(open_, pending, following))
    processing.books.progress = {
        (topic, at): (through, records) for topic, at, through, records in state["progress"]
    }
    return {(topic, at): slot for topic, at, slot in state["slots"]}


def _runs(runs: Iterable[tuple[TopicPartition, SeenRun]]) -> list[str]:
    return [_run_entry(place, run) for place, run in runs]


def _run_entry(place: TopicPartition, run: SeenRun) -> str:
    return handed_out_entry(place, run)[ENTRY_FIELDS.size :].hex()
