"""From which offset on a log holds only what is later than a time.

A broker names the first record of a time or later. Producers' times do not rise in order, and the
record of one clock that was wrong would hide all that follows it. So the batches behind it are
looked at::

    times   10:00 10:01 │ 2100 │ 10:02 10:03 ... 12:00 12:01 │ 12:02 12:03 ...
                          broker's answer for 12:02            where it is

First those that follow, until nothing earlier is among a whole piece of them; then one at each of
some places behind. Only headers are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.client import FetchSpec, SimpleConsumer
from tallymark.errors import KafkaError
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.topic_partition import TopicPartition

PIECE: Final = 256 << 10
"""Bytes of batches in which nothing is earlier: what follows is taken to be later, too."""
PIECES: Final = 16
"""After so many of them the log is read to its end."""
PLACES: Final = 16
"""At so many places behind a batch is looked at."""


def late_offsets(
    consumer: SimpleConsumer,
    found: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    late: int,
) -> dict[TopicPartition, int]:
    """The offsets from which on the logs up to ``ends`` hold only times (ms) from ``late`` on, as
    far as is looked; logs of which that cannot be said are left out. ``found``: the first records
    of ``late`` or later."""
    settled: dict[TopicPartition, int] = {}
    places = dict(found)
    for _ in range(PIECES):
        answers = _headers(consumer, places, PIECE)
        for place, headers in answers.items():
            earlier = [one.next_offset for one in headers or () if _earliest(one) < late]
            behind = max([places[place], *earlier])
            if headers is None or behind >= ends[place]:
                del places[place]
            elif earlier:
                places[place] = behind
            else:
                settled[place] = places.pop(place)
    for number in range(1, PLACES):
        at = {
            place: offset + (ends[place] - offset) * number // PLACES
            for place, offset in settled.items()
        }
        for place, headers in _headers(consumer, at, 1).items():
            if headers is None or any(_earliest(header) < late for header in headers):
                del settled[place]
    return settled


def _headers(
    consumer: SimpleConsumer, places: Mapping[TopicPartition, int], size: int
) -> dict[TopicPartition, list[BatchHeader] | None]:
    """The headers of the batches at those offsets; None: they cannot be read."""
    if not places:
        return {}
    specs = [FetchSpec(*place, offset) for place, offset in places.items()]
    answers = consumer.multifetch(specs, max_bytes=size, max_wait_ms=0)
    return {
        (spec.topic, spec.partition): None
        if isinstance(answer, KafkaError)
        else [batch.header for batch in answer.batches if not batch.header.is_control]
        for spec, answer in zip(specs, answers, strict=True)
    }


def _earliest(header: BatchHeader) -> int:
    """The earliest time (ms) in a batch, as far as its header shows: its first record's."""
    if header.is_log_append_time:
        return header.max_timestamp
    return min(header.base_timestamp, header.max_timestamp)
