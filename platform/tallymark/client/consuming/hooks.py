"""Hooks of a consumer: objects that account for what a group has processed, as the audit does.

A hook is called with messages as they are handed out and, before offsets are stored, with the
offsets up to which they are processed. The offsets are stored after it returns: a group that
continues from stored offsets never skips messages that the hook has not handled::

    handed_out(columns) ─┬► done_before(positions) ──► offsets are stored
                         ├► released(places): delivered again, to the next owner
                         └► truncated(offset): the rest is gone for ever

A hook with a method ``view(topic, partition)`` is asked for memory, two signed 64-bit numbers, in
which the stream keeps what is in hand of the partition at any moment (:mod:`.marks`). A hook that
needs them after the death of the process returns a mapped file; None: it does not need them.

With ``delivery="at_most_once"`` offsets are stored before messages are handed out. The hook is
still called only with what the application has finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from tallymark.errors import UserError
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")


@runtime_checkable
class ConsumerHook(Protocol):
    """The calls. They come from several threads; what they raise is logged once and changes nothing
    for the messages."""

    def handed_out(self, topic: str, partition: int, columns: RecordColumns) -> None:
        """These messages are about to be handed out; from the thread that reads the stream."""

    def done_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """All messages before these offsets are processed, and that is about to be stored. It may
        wait a moment: nothing else waits but the commit."""

    def released(self, places: Collection[TopicPartition]) -> None:
        """The partitions are given up: what was handed out of them and is not processed comes
        again."""

    def truncated(self, topic: str, partition: int, offset: int) -> None:
        """The log was cut there (KIP-320). What was handed out from that offset on is no longer in
        it, so no position will say that it is processed; other messages may have its offsets now.
        From the thread that reads the stream, before it comes to these; it must not wait."""

    def closed(self) -> None:
        """The consumer has left its group."""


def checked_hooks(hooks: Iterable[ConsumerHook]) -> Sequence[ConsumerHook]:
    """All of them. UserError for what is none."""
    found = list(hooks)
    for one in found:
        if isinstance(one, type) or not isinstance(one, ConsumerHook):
            raise UserError(
                f"ConsumerConnector: {one!r} in hooks is none",
                "it must have the methods handed_out, done_before, released, truncated and closed",
            )
    return found


class Hooks:
    """Several hooks as one, that cannot hurt."""

    def __init__(self, hooks: Sequence[ConsumerHook] = ()) -> None:
        self._hooks = hooks
        self._logged: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def handed_out(self, topic: str, partition: int, columns: RecordColumns) -> None:
        """See :class:`ConsumerHook`; so with the following."""
        self._each("handed_out", lambda hook: hook.handed_out(topic, partition, columns))

    def views(self, topic: str, partition: int) -> list[memoryview]:
        """The memory that the hooks give for what is in hand of a partition."""
        found: list[memoryview | None] = []
        self._each("view", lambda hook: found.append(_view_of(hook, topic, partition)))
        return [view for view in found if view is not None]

    def done_before(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            self._each("done_before", lambda hook: hook.done_before(positions))

    def released(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._each("released", lambda hook: hook.released(places))

    def truncated(self, topic: str, partition: int, offset: int) -> None:
        self._each("truncated", lambda hook: hook.truncated(topic, partition, offset))

    def closed(self) -> None:
        self._each("closed", lambda hook: hook.closed())

    def _each(self, name: str, call: Callable[[ConsumerHook], Any]) -> None:
        for number, hook in enumerate(self._hooks):
            try:
                call(hook)
            except Exception:
                if (number, name) not in self._logged:
                    self._logged.add((number, name))
                    LOG.exception("%s.%s failed; said once", type(hook).__name__, name)


def _view_of(hook: ConsumerHook, topic: str, partition: int) -> memoryview | None:
    give = getattr(hook, "view", None)
    return give(topic, partition) if give is not None else None
