"""Prevents loops: knows from which clusters copied records come, so that they are not copied back.

A mirror must not change records, and must not decode each of them. What it can choose is the
producer id under which it writes. The id is in the header of every batch, as long as the batch
exists, on any broker. So each mirror announces its ids in the cluster it writes to, before it uses
them, in the compacted topic ``_tallymark_mirror_producers``::

    key    the producer id, decimal
    value  {"mirror": "dc1-to-dc2", "origin": ["<cluster id of dc1>", ...]}

``origin`` names every cluster that the records have been in: the source, and the origin of records
that a mirror has copied to the source. So a mirror that reads a batch with such an id knows whether
the records have been in its target. Then it does not copy them, whatever way they took (A to B and
back, or A to B to C and back to A), and whatever the topic's name is.

An announcement is in the log before the first batch of its id. So an id of a batch that is not in
the topic belongs to no mirror, now or ever, and is looked up once.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.target.ready_batch import Origin

TOPIC: Final = "_tallymark_mirror_producers"
TOPIC_CONFIGS: Final = {"cleanup.policy": "compact"}
NONE: Final[Origin] = frozenset()
_MOST_KNOWN: Final = 100_000
_log: Final = logging.getLogger("mirror")


def announcement(producer_id: int, mirror: str, origin: Origin) -> tuple[bytes, bytes]:
    """Key and value that announce an id."""
    value = {"mirror": mirror, "origin": sorted(origin)}
    return str(producer_id).encode(), json.dumps(value).encode()


def read_announcement(key: bytes | None, value: bytes | None) -> tuple[int, Origin] | None:
    """The id and its origin; None for what is no announcement."""
    try:
        content: Any = json.loads(value or b"")
        return int(key or b""), frozenset(str(cluster) for cluster in content["origin"])
    except (ValueError, KeyError, TypeError):
        return None


class LoopGuard:
    """The announcements of one cluster, read when they are needed. For one thread."""

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = consumer
        self._mirrors: dict[int, Origin] = {}
        self._others: set[int] = set()
        self._next: dict[int, int] = {}

    def of(self, producer_id: int) -> Origin:
        """The clusters that records with this producer id were in before; NONE: it is not a
        mirror's id.

        ConnectError, KafkaError: the cluster does not answer, try again."""
        if producer_id < 0 or producer_id in self._others:
            return NONE
        if producer_id not in self._mirrors:
            self._catch_up()
        if producer_id not in self._mirrors:
            if len(self._others) >= _MOST_KNOWN:
                self._others.clear()
            self._others.add(producer_id)
        return self._mirrors.get(producer_id, NONE)

    def _catch_up(self) -> None:
        try:
            ends = self._consumer.end_offsets(TOPIC)
        except KafkaError as error:
            if error.code != CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
                raise
            return  # no mirror has ever written here
        starts = self._consumer.start_offsets(TOPIC)
        for partition, end in ends.items():
            at = max(self._next.get(partition, 0), starts.get(partition, 0))
            while at < end:
                fetched = self._consumer.fetch(TOPIC, partition, at)
                for record in fetched.records():
                    found = read_announcement(record.key, record.value)
                    if found is not None:
                        self._mirrors[found[0]] = found[1]
                if fetched.next_offset <= at:
                    break
                at = fetched.next_offset
            self._next[partition] = at
