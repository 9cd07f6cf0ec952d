"""Translates a position in the source to a position in the target."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple

from tallymark.client.core.security.deployment import connection_settings
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.closing import ClosedByWith
from tallymark.deployment import Deployment
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark.mirror.offsets.offset_syncs import TOPIC, OffsetSync, decode, translate
from tallymark.mirror.progress import Partition
from tallymark.mirror.settings import find_mirror
from tallymark.protocol.schema import ZERO_UUID

REQUEST_TIMEOUT_MS: Final = 10_000
READ_SECONDS: Final = 60.0


class Translated(NamedTuple):
    """A position in the source, and the position in the target from which all that follows can be
    read. ``offset`` is None where only the beginning of the target's topic is safe."""

    topic: str
    partition: int
    source_offset: int
    target_topic: str
    target_partition: int
    offset: int | None


class OffsetTranslator(ClosedByWith):
    """Translates offsets of a mirror's source into those of its target. Close it, or use ``with``.

    At construction it reads the pairs that the mirror has written in the target
    (:mod:`~tallymark.mirror.offsets.offset_syncs`); :meth:`refresh` reads what was written since.
    The result is conservative: nothing is skipped, some messages may be read twice. Raises
    UserError for an unknown mirror, ConnectError.
    """

    def __init__(self, deployment: Deployment, source: str, target: str) -> None:
        self._settings = find_mirror(deployment, source, target)
        self._syncs: dict[Partition, dict[bytes, OffsetSync]] = {}
        self._next = 0
        with ExitStack() as opened:
            self._source, self._target = (
                opened.enter_context(
                    SimpleConsumer(
                        client_id=f"translate-{self._settings.name}",
                        request_timeout_ms=REQUEST_TIMEOUT_MS,
                        **connection_settings(deployment.cluster(name)),
                    )
                )
                for name in (source, target)
            )
            self.refresh()
            self._opened = opened.pop_all()

    def refresh(self) -> None:
        """Read the pairs that were written since, and the present ids of the topics."""
        topics = self._source.topics()
        self._ids = {
            name: "" if info.topic_id == ZERO_UUID else info.topic_id.hex
            for name, info in topics.items()
        }
        try:
            end = self._target.end_offsets(TOPIC).get(0, 0)
            at = max(self._next, self._target.start_offsets(TOPIC).get(0, 0))
        except KafkaError as error:
            if error.code != CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
                raise
            return  # the mirror has never run
        deadline = time.monotonic() + READ_SECONDS
        while at < end:
            if time.monotonic() > deadline:
                raise TimedOutError(f"{TOPIC} could not be read within {READ_SECONDS:g} s")
            fetched = self._target.fetch(TOPIC, 0, at)
            for record in fetched.records():
                self._take(record.key, record.value)
            at = fetched.next_offset
        self._next = at

    def translate(self, topic: str, partition: int, offset: int) -> Translated:
        """The position in the target for ``offset`` of the source."""
        wanted = self._ids.get(topic, "")
        known = [
            sync
            for sync in self._syncs.get((topic, partition), {}).values()
            if not wanted or not sync.source_topic_id or sync.source_topic_id == wanted
        ]
        name = self._settings.target_topic(topic)
        found = translate((sync for sync in known if sync.target_topic == name), offset)
        if found is None:
            return Translated(topic, partition, offset, name, partition, None)
        return Translated(topic, partition, offset, *found)

    def translate_all(self, offsets: Mapping[Partition, int]) -> list[Translated]:
        """Each of these, without the topics that the mirror does not copy."""
        return [
            self.translate(topic, partition, offset)
            for (topic, partition), offset in sorted(offsets.items())
            if self._settings.copies(topic)
        ]

    def start_of(self, one: Translated) -> int:
        """Its offset, or where the target's topic begins, when only that is safe."""
        if one.offset is not None:
            return one.offset
        return self._target.start_offsets(one.target_topic).get(one.target_partition, 0)

    def target_offsets(self, found: Iterable[Translated]) -> dict[Partition, int]:
        """The offsets to commit for a group that continues at the target. Topics that the target
        does not have are left out: there is nothing to skip in them."""
        there = self._target.topics()
        return {
            (one.target_topic, one.target_partition): self.start_of(one)
            for one in found
            if one.target_topic in there
            and one.target_partition in there[one.target_topic].partitions
        }

    def close(self) -> None:
        """Disconnect. Idempotent."""
        self._opened.close()

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        found = decode(key, value)
        if found is not None and found[0] == self._settings.name:
            self._syncs.setdefault(found[1], {})[key or b""] = found[2]
