"""The port for observers of a mirror. The audit is one.

The mirror calls the methods of :class:`MirrorObserver` with what was copied and what could not be.
All calls come from the mirror's one thread, one at a time. They must be short and must not wait
(``publish`` and ``create_topic`` return futures). An exception in them is logged once and counted;
it does not affect the copying.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final, Protocol, runtime_checkable

from tallymark.deployment import Deployment

ENTRY_POINTS: Final = "tallymark.mirror_observers"
"""name = module:factory, factory() -> MirrorObserver. Loaded by every Mirror that names none."""

DAMAGED: Final = "damaged"
"""The reason of a gap where a partition is stopped."""

_log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True)
class MirrorContext:
    """What an observer knows about its mirror, and what it may use.

    ``source`` and ``target`` are the clusters' names in the settings. ``publish(topic, key, value,
    timestamp_ms)`` sends a record of the observer's own to the *target*; its future yields
    RecordMetadata. ``create_topic(name, partitions, configs)`` creates a topic there; its future
    yields True when it did, False when the topic existed. Neither blocks."""

    source: str
    target: str
    client_id: str
    source_cluster_id: str
    """Empty where the cluster has none; the same for ``target_cluster_id``."""
    target_cluster_id: str
    deployment: Deployment
    publish: Callable[[str, bytes | None, bytes | None, int | None], Future[Any]]
    create_topic: Callable[[str, int, Mapping[str, str]], Future[bool]]


@runtime_checkable
class MirrorObserver(Protocol):
    """The calls. Offsets are the source's; times are wall-clock milliseconds, UTC."""

    def attach(self, context: MirrorContext) -> None:
        """Once, before anything is copied."""

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        """The target has acknowledged all of these offsets (a range without gaps). A range may be
        reported again after a rebalance. After the source was truncated it may overlap others."""

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        """Offsets [``from_offset``, ``to_offset``) are not copied, or what was copied is no longer
        in the source. May be reported again after a rebalance. Reasons:

        * ``retention``: deleted before they were copied;
        * ``truncation``: copied, and cut off since; the offsets may hold other messages now;
        * ``recreated``: the topic was deleted and created again; ``from_offset`` = ``to_offset`` is
          how far the old one was copied; how much more it had is not known;
        * ``aborted``: messages of transactions that were aborted;
        * ``corrupt``: cannot be read, and the settings say to leave such batches out;
        * ``damaged``: the batch at ``from_offset`` cannot be read, and the partition is stopped
          there (``to_offset`` only closes the range) until the batch is passed;
        * ``control``, ``compaction``, ``unknown``: there never was a message, or it is gone; see
          :mod:`tallymark.mirror.source.gaps`;
        * ``deleted``: the topic is gone, and was never created at the target.
        """

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """About twice a second, unless the target keeps the mirror waiting. ``oldest_pending_ms``
        is the smallest timestamp among the batches that were read and are not acknowledged, each by
        its first record (the others are not decoded); None: there is none."""

    def on_close(self, now_ms: int) -> None:
        """Nothing more will be copied. The mirror waits a moment for what is published now."""


@runtime_checkable
class PassedObserver(Protocol):
    """An observer may have this method as well."""

    def on_passed(self, topic: str, partition: int, offset: int, topic_id: str) -> None:
        """How far a partition is done: of the source's offsets below ``offset`` each was
        acknowledged by the target, reported as a gap, or was not to be copied (it came from the
        target). ``topic_id``: 32 hex digits, or empty. About twice a second for every partition
        that this process has, and once more when it gives one up. It falls back when the source was
        truncated, or the topic created again."""


def load_observers() -> list[MirrorObserver]:
    """One new observer per entry point. One that does not load is logged and left out."""
    loaded: list[MirrorObserver] = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded.append(entry.load()())
        except Exception as error:
            _log.warning("observer %s (%s) is left out: %r", entry.name, entry.value, error)
    return loaded


class ObserverChain:
    """Calls several observers; none of them can disturb the copying. ``errors`` counts their
    exceptions."""

    def __init__(self, observers: Sequence[MirrorObserver]) -> None:
        self.errors = 0
        self._observers = tuple(observers)
        self._logged: set[tuple[int, str]] = set()

    def attach(self, context: MirrorContext) -> None:
        """See MirrorObserver, for this method and the others."""
        self._each("attach", lambda one: one.attach(context))

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        self._each(
            "on_copied", lambda one: one.on_copied(topic, partition, first_offset, last_offset)
        )

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self._each(
            "on_gap", lambda one: one.on_gap(topic, partition, from_offset, to_offset, reason)
        )

    def on_passed(self, topic: str, partition: int, offset: int, topic_id: str) -> None:
        """See PassedObserver."""

        def report(one: MirrorObserver) -> None:
            if isinstance(one, PassedObserver):
                one.on_passed(topic, partition, offset, topic_id)

        self._each("on_passed", report)

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self._each("on_tick", lambda one: one.on_tick(now_ms, oldest_pending_ms))

    def on_close(self, now_ms: int) -> None:
        self._each("on_close", lambda one: one.on_close(now_ms))

    def _each(self, name: str, call: Callable[[MirrorObserver], None]) -> None:
        for index, observer in enumerate(self._observers):
            try:
                call(observer)
            except Exception:
                self.errors += 1
                if (index, name) not in self._logged:
                    self._logged.add((index, name))
                    _log.exception(
                        "%s.%s failed; further failures of it are only counted",
                        type(observer).__name__,
                        name,
                    )
