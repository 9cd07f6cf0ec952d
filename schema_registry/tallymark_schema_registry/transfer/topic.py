"""The topic ``_schemas`` of another registry, read with our own client up to its end."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import UserError
from tallymark_schema_registry.transfer.lines import UnreadableError, read_entry
from tallymark_schema_registry.transfer.reading import Told
from tallymark_schema_registry.transfer.snapshot import Replay

_PATIENCE_S: Final = 60.0
_FETCH_BYTES: Final = 8 * 1024 * 1024


def read_topic(consumer: SimpleConsumer, topic: str, told: Told | None = None) -> Replay:
    """All records of ``topic``, from its first offset to where it ends now. ``consumer`` reads
    committed records only. What is no record of a registry is counted.

    Raises KafkaError where there is no such topic, UserError where it does not get to the end."""
    replay = Replay()
    ends = consumer.end_offsets(topic)
    for partition, start in sorted(consumer.start_offsets(topic).items()):
        _read(consumer, replay, (topic, partition), start, ends.get(partition, start), told)
    return replay


def _read(
    consumer: SimpleConsumer,
    replay: Replay,
    of: tuple[str, int],
    position: int,
    end: int,
    told: Told | None,
) -> None:
    topic, partition = of
    moved = time.monotonic()
    while position < end:
        fetched = consumer.fetch(topic, partition, position, max_bytes=_FETCH_BYTES)
        for message in fetched:
            if message.offset < end:
                _take(replay, f"{topic}-{partition} offset {message.offset}", message)
        if fetched.next_offset > position:
            position, moved = fetched.next_offset, time.monotonic()
        elif time.monotonic() - moved > _PATIENCE_S:
            raise UserError(
                f"nothing came of {topic}-{partition} from offset {position} on within "
                f"{_PATIENCE_S:.0f} s, and it ends at {end}",
                "look for a transaction that was left open",
            )
        if told:
            told(f"{replay.records} records")


def _take(replay: Replay, where: str, message: Any) -> None:
    try:
        replay.add(read_entry(_json(message.key), _json(message.value)))
    except UnreadableError as error:
        replay.skip(where, error)


def _json(data: bytes | None) -> Any:
    """None stays: a tombstone has no value at all."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # UnicodeDecodeError is one of them
        raise UnreadableError("it is not JSON") from None
