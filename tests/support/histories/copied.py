"""The journals of copiers (:mod:`copier_journal`) as a history for Jepsen's checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from operations import Ended, Operation, Send

_ENDED: Final = {"committed": Ended.OK, "aborted": Ended.FAILED, "in doubt": Ended.IN_DOUBT}


def transactions_of(name: str, lines: Iterable[str]) -> list[Operation]:
    """The transactions that were asked to be committed, in the order of their ends, with those of
    which no end is known at the end."""
    asked: dict[int, tuple[float, list[Send]]] = {}
    found: list[Operation] = []
    for line in _whole(lines):
        if line is None:  # another process of this name
            found += _unknown(name, asked)
            continue
        match line:
            case ["ending", at, number, placed]:
                asked[number] = (at, list(_sends(placed)))
            case ["committed" | "aborted" | "in doubt" as end, at, number] if number in asked:
                asked_at, sends = asked.pop(number)
                found.append(Operation(name, _ENDED[end], sends, at=at, commit_asked=asked_at))
            case _:
                continue  # one that was never asked to be committed: see never_asked()
    return found + _unknown(name, asked)


def never_asked(known: Iterable[Operation], read: Iterable[tuple[str, str]]) -> Operation:
    """Of what was ``read``, (key, value), everything that no known transaction has written: it was
    in one of which the commit was never asked for, so it has failed."""
    asked = {step.value for one in known for step in one.steps if isinstance(step, Send)}
    sends = tuple(Send(key, value) for key, value in read if value not in asked)
    return Operation("never asked to commit", Ended.FAILED, sends)


def _whole(lines: Iterable[str]) -> Iterator[list[Any] | None]:
    """Lines that were written to their end; None where a process has begun."""
    for line in lines:
        try:
            yield json.loads(line) if line.strip() else None
        except ValueError:
            continue


def _sends(placed: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[Send]:
    for partition, values in placed.items():
        for value, offset in values:
            yield Send(partition, f"{partition}:{value}", offset)


def _unknown(name: str, asked: dict[int, tuple[float, list[Send]]]) -> list[Operation]:
    """What was asked and not answered; ``asked`` is empty afterwards."""
    found = [
        Operation(name, Ended.IN_DOUBT, sends, commit_asked=at) for at, sends in asked.values()
    ]
    asked.clear()
    return found
