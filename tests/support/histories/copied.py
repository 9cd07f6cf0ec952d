"""The journals of copiers (:mod:`copier_journal`) as a history for Jepsen's checks. Pure.

A transaction of which the commit was asked for has read each partition without a gap: its positions
are stored by the generation of before its first message, or not at all. Where it goes on reading is
not compared with the one before: others may have had its partitions meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from operations import Ended, Operation, Poll, Send, Step

_ENDED: Final = {"committed": Ended.OK, "aborted": Ended.FAILED, "in doubt": Ended.IN_DOUBT}
_Asked: TypeAlias = dict[int, tuple[float, list[Step]]]
"""Number -> when its commit was asked for, and what it has read and written."""


def transactions_of(name: str, lines: Iterable[str]) -> list[Operation]:
    """The transactions that were asked to be committed, in the order of their ends, with those of
    which no end is known at the end."""
    asked: _Asked = {}
    found: list[Operation] = []
    for line in _whole(lines):
        if line is None:  # another process of this name
            found += _unknown(name, asked)
            continue
        match line:
            case ["ending", at, number, read, written]:
                asked[number] = (at, [*_polls(read), *_sends(written)])
            case ["committed" | "aborted" | "in doubt" as end, at, number] if number in asked:
                asked_at, steps = asked.pop(number)
                found.append(_operation(name, _ENDED[end], steps, asked_at, at))
            case _:
                continue  # one that was never asked to be committed: see never_asked()
    return found + _unknown(name, asked)


def value_at(place: str, value: str) -> str:
    """A value of a history: a text is unique in its partition only."""
    return f"{place}:{value}"


def never_asked(known: Iterable[Operation]) -> Operation:
    """Of what was read everything that no known operation has written: it was in a transaction of
    which the commit was never asked for, so that has failed."""
    steps = [step for operation in known for step in operation.steps]
    asked = {step.value for step in steps if isinstance(step, Send)}
    read = {step.value: step.key for step in steps if isinstance(step, Poll)}
    sends = tuple(Send(key, value) for value, key in read.items() if value not in asked)
    return Operation("never asked to commit", Ended.FAILED, sends)


def _whole(lines: Iterable[str]) -> Iterator[list[Any] | None]:
    """Lines that were written to their end; None where a process has begun."""
    for line in lines:
        try:
            yield json.loads(line) if line.strip() else None
        except ValueError:
            continue


def _polls(read: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[Poll]:
    for place, values in read.items():
        for value, offset in values:
            yield Poll(place, offset, value_at(place, value))


def _sends(written: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[Send]:
    for place, values in written.items():
        for value, offset in values:
            yield Send(place, value_at(place, value), offset)


def _operation(
    name: str, ended: Ended, steps: list[Step], asked_at: float, at: float | None = None
) -> Operation:
    return Operation(name, ended, steps, assigned=True, at=at, commit_asked=asked_at)


def _unknown(name: str, asked: _Asked) -> list[Operation]:
    """What was asked and not answered; ``asked`` is empty afterwards."""
    found = [_operation(name, Ended.IN_DOUBT, steps, at) for at, steps in asked.values()]
    asked.clear()
    return found
