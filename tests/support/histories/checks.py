"""Jepsen's checks of a log: what no history may show. Pure.

For each key a map from offset to value is inferred from all sends and polls (jepsen.io, Redpanda
21.10.1 and Bufstream 0.1.0). Interleaved sends of one process and gaps between sends are legal.
Two checks of stored positions (:class:`~operations.Commit`) are beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from operations import Anomaly, Commit, Ended, Operation, Poll, Read, Send


class KnownHistory:
    """A history and what follows from it. ``operations`` are in the order of their ends; at the
    end every process has polled everything, or :func:`unseen` says more than it should."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations

    @cached_property
    def polled(self) -> dict[str, dict[int, str]]:
        """Key -> offset -> a value that was read there."""
        found: dict[str, dict[int, str]] = defaultdict(dict)
        for operation in self.operations:
            for step in operation.steps:
                if isinstance(step, Poll):
                    found[step.key][step.offset] = step.value
        return found

    @cached_property
    def places(self) -> dict[tuple[str, int], dict[str, None]]:
        """(key, offset) -> the values that were acknowledged or read there."""
        found: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
        for operation in self.operations:
            for step in operation.steps:
                if isinstance(step, Send | Poll) and step.offset is not None:
                    found[step.key, step.offset][step.value] = None
        return found

    @cached_property
    def seen(self) -> dict[str, None]:
        """All values that were read."""
        return {
            step.value: None
            for operation in self.operations
            for step in operation.steps
            if isinstance(step, Poll | Read)
        }

    def sends(self, ended: Ended) -> Iterator[Send]:
        """The sends of operations that ended so."""
        for operation in self.operations:
            if operation.ended is ended:
                for step in operation.steps:
                    if isinstance(step, Send):
                        yield step


def aborted_read(known: KnownHistory) -> Iterator[str]:
    """A value was read whose operation has certainly failed."""
    for send in known.sends(Ended.FAILED):
        if send.value in known.seen:
            yield f"{send.value} was read"


def precommitted_read(known: KnownHistory) -> Iterator[str]:
    """A value was read in an operation that ended, or asked for its own commit, before the commit
    of what it read was asked for. Only operations with times say anything."""
    asked = {
        step.value: operation.commit_asked
        for operation in known.operations
        for step in operation.steps
        if isinstance(step, Send) and operation.commit_asked is not None
    }
    for operation in known.operations:
        # A transaction has read everything before it asks for its commit.
        read_by = operation.at if operation.commit_asked is None else operation.commit_asked
        if read_by is None:
            continue
        for step in operation.steps:
            if isinstance(step, Poll | Read) and read_by < asked.get(step.value, read_by):
                yield f"{operation.process} read {step.value} before its commit was asked for"


def g1c(known: KnownHistory) -> Iterator[str]:
    """Transactions that have read what the next one has written, in a circle. Only those that read
    and write can be in one: a copier's, by its :class:`~operations.Read` or polls."""
    writer = {
        step.value: at
        for at, operation in enumerate(known.operations)
        if operation.ended is not Ended.FAILED
        for step in operation.steps
        if isinstance(step, Send)
    }
    read_by: dict[int, set[int]] = defaultdict(set)
    for at, operation in enumerate(known.operations):
        for step in operation.steps:
            if isinstance(step, Poll | Read) and writer.get(step.value, at) != at:
                read_by[writer[step.value]].add(at)
    sorter = TopologicalSorter(read_by)
    try:
        sorter.prepare()
    except CycleError as error:
        yield "in a circle: " + ", ".join(known.operations[at].process for at in error.args[1])


def lost_write(known: KnownHistory) -> Iterator[str]:
    """A value was acknowledged, a later one of its key was read, it never was."""
    for send in known.sends(Ended.OK):
        polled = known.polled.get(send.key)
        if send.value not in known.seen and send.offset is not None and polled:
            last = max(polled)
            if last > send.offset:
                yield f"{send.value} at {send.key}/{send.offset}: {polled[last]} at {last} was read"


def unseen(known: KnownHistory) -> Iterator[str]:
    """A value was acknowledged and never read."""
    for send in known.sends(Ended.OK):
        if send.value not in known.seen:
            yield f"{send.value} of {send.key} was acknowledged"


def duplicate(known: KnownHistory) -> Iterator[str]:
    """One value is at two offsets."""
    offsets: dict[str, dict[tuple[str, int], None]] = defaultdict(dict)
    for place, values in known.places.items():
        for value in values:
            offsets[value][place] = None
    for value, places in offsets.items():
        if len(places) > 1:
            yield f"{value} is at {', '.join(f'{key}/{offset}' for key, offset in places)}"


def inconsistent_offsets(known: KnownHistory) -> Iterator[str]:
    """Two values are at one offset."""
    for (key, offset), values in known.places.items():
        if len(values) > 1:
            yield f"{key}/{offset} has {', '.join(values)}"


def poll_skip(known: KnownHistory) -> Iterator[str]:
    """Between two operations a process skips a value that is known."""
    for before, after in _between(known, Poll):
        yield from _skipped(known, before, after)


def int_poll_skip(known: KnownHistory) -> Iterator[str]:
    """Inside of an operation a process skips a value that is known."""
    for before, after in _inside(known, Poll):
        yield from _skipped(known, before, after)


def nonmonotonic_poll(known: KnownHistory) -> Iterator[str]:
    """Between two operations a process reads backwards."""
    yield from _backwards(_between(known, Poll))


def int_nonmonotonic_poll(known: KnownHistory) -> Iterator[str]:
    """Inside of an operation a process reads backwards."""
    yield from _backwards(_inside(known, Poll))


def nonmonotonic_send(known: KnownHistory) -> Iterator[str]:
    """A later operation of a process got an earlier offset."""
    yield from _backwards(_between(known, Send))


def int_nonmonotonic_send(known: KnownHistory) -> Iterator[str]:
    """Inside of an operation a later send got an earlier offset."""
    yield from _backwards(_inside(known, Send))


def nonmonotonic_commit(known: KnownHistory) -> Iterator[str]:
    """The stored position of a process's group ran backwards."""
    for process, key, before, step in _since_commits(known):
        if isinstance(step, Commit) and step.offset < before:
            yield f"{process}, {key}: {step.offset} was stored after {before}"


def poll_before_commit(known: KnownHistory) -> Iterator[str]:
    """A process reads again what its group has stored as read, whether it got other partitions
    meanwhile or not."""
    for process, key, before, step in _since_commits(known):
        if isinstance(step, Poll) and step.offset < before:
            yield f"{process}, {key}: {step.value} at {step.offset} after {before} was stored"


_NAMES = {"g1c": "G1c"}
"""Of checks that are not named like their function."""

CHECKS: dict[str, Callable[[KnownHistory], Iterator[str]]] = {
    _NAMES.get(check.__name__, check.__name__.replace("_", "-")): check
    for check in (
        aborted_read,
        precommitted_read,
        g1c,
        lost_write,
        unseen,
        duplicate,
        inconsistent_offsets,
        poll_skip,
        int_poll_skip,
        nonmonotonic_poll,
        int_nonmonotonic_poll,
        nonmonotonic_send,
        int_nonmonotonic_send,
        nonmonotonic_commit,
        poll_before_commit,
    )
}


def anomalies(operations: Sequence[Operation]) -> list[Anomaly]:
    """Everything that must not be there."""
    known = KnownHistory(operations)
    return [Anomaly(name, text) for name, check in CHECKS.items() for text in check(known)]


def _since_commits(known: KnownHistory) -> Iterator[tuple[str, str, int, Commit | Poll]]:
    """(process, key, its position stored last, a poll or commit of its after that)."""
    stored: dict[tuple[str, str], int] = {}
    for operation in known.operations:
        for step in operation.steps:
            if isinstance(step, Send | Read):
                continue
            whose = operation.process, step.key
            if whose in stored:
                yield *whose, stored[whose], step
            if isinstance(step, Commit):
                stored[whose] = step.offset


_Pair = tuple[Send | Poll, Send | Poll]


def _inside(known: KnownHistory, kind: type[Send] | type[Poll]) -> Iterator[_Pair]:
    """Neighbours of one key in one operation."""
    for operation in known.operations:
        last: dict[str, Send | Poll] = {}
        for step in _placed(operation, kind):
            if step.key in last:
                yield last[step.key], step
            last[step.key] = step


def _between(known: KnownHistory, kind: type[Send] | type[Poll]) -> Iterator[_Pair]:
    """The last of a key in an operation of a process, and the first in its next one."""
    last: dict[str, dict[str, Send | Poll]] = defaultdict(dict)
    for operation in known.operations:
        mine = last[operation.process]
        if operation.assigned and kind is Poll:
            mine.clear()
        first: set[str] = set()
        for step in _placed(operation, kind):
            if step.key not in first and step.key in mine:
                yield mine[step.key], step
            first.add(step.key)
            mine[step.key] = step


def _placed(operation: Operation, kind: type[Send] | type[Poll]) -> Iterator[Send | Poll]:
    for step in operation.steps:
        if isinstance(step, kind) and step.offset is not None:
            yield step


def _skipped(known: KnownHistory, before: Send | Poll, after: Send | Poll) -> Iterator[str]:
    assert before.offset is not None
    assert after.offset is not None
    for offset in range(before.offset + 1, after.offset):
        if offset in known.polled[before.key]:
            value = known.polled[before.key][offset]
            yield f"{before.key}: from {before.offset} to {after.offset}, past {value} at {offset}"


def _backwards(pairs: Iterator[_Pair]) -> Iterator[str]:
    for before, after in pairs:
        assert before.offset is not None
        assert after.offset is not None
        if after.offset <= before.offset:
            yield (
                f"{before.key}: {after.value} at {after.offset} "
                f"after {before.value} at {before.offset}"
            )
