"""What a verdict must say, by somebody who followed every message. It shares no code with the
verdict function, nor with what counts: it looks at one :class:`audit_parts.Message` after the
other, and uses sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from audit_parts import Message, is_left_out
from audit_world import World

BLOCK = 1024


@dataclass
class Expected:
    """What is wrong with a cell. ``explained``: by reason; ``duplicates``: further copies."""

    missing: set[int] = field(default_factory=set[int])
    expired: set[int] = field(default_factory=set[int])
    duplicates: int = 0
    corrupt: set[int] = field(default_factory=set[int])
    explained: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    @property
    def state(self) -> str:
        """What a person would call it."""
        damage = [
            name
            for name, wrong in (
                ("LOSS", self.missing),
                ("DUPLICATION", self.duplicates),
                ("CORRUPT", self.corrupt),
            )
            if wrong
        ]
        if len(damage) > 1:
            return "MIXED"
        if damage:
            return damage[0]
        return "EXPLAINED" if self.explained else "COMPLETE"


Cell = tuple[str, int]
"""Instance and partition."""


def cells_of(world: World, window: int) -> dict[Cell, list[Message]]:
    """The messages of a window, by cell."""
    found: dict[Cell, list[Message]] = {}
    for message in world.messages:
        if message.window == window:
            found.setdefault((message.instance, message.partition), []).append(message)
    return found


def expect(edge: str, messages: Iterable[Message]) -> Expected:
    """What the settled verdict of a cell on an edge has to say."""
    if edge.startswith("producer-to-"):
        return _at_the_datacenter(list(messages))
    if "group:" in edge:
        return _at_the_group(list(messages))
    return _at_the_aggregate(list(messages))


def concerns(edge: str, message: Message) -> bool:
    """Whether the edge has to do with the message."""
    if edge == f"producer-to-{message.home}":
        return True
    if edge == f"{message.home}-to-aggregate":
        return message.copies(message.home) > 0
    return "group:" in edge and message.copies("aggregate") > 0


def _at_the_datacenter(messages: list[Message]) -> Expected:
    found = Expected()
    for m in messages:
        how = m.outcome.name if m.outcome is not None else "IN_DOUBT"
        there = m.copies(m.home)
        found.duplicates += max(0, there - 1)
        if there:
            continue
        if how == "ACKNOWLEDGED":
            found.missing.add(m.sequence)
        else:
            reason = how.lower().replace("_", " ")
            found.explained.setdefault(reason, set()).add(m.sequence)
    promised = {m.sequence for m in messages if m.outcome and m.outcome.name == "ACKNOWLEDGED"}
    for block, some in _blocks(messages).items():
        held = {m.sequence for m in some if m.copies(m.home)}
        once = all(m.copies(m.home) < 2 for m in some)
        same = held == {m.sequence for m in some if m.sequence in promised}
        if held and once and same and any(m.contents[m.home] != [m.value] for m in _in(some)):
            found.corrupt.add(block)
    return found


def _at_the_aggregate(messages: list[Message]) -> Expected:
    found = Expected()
    for m in messages:
        given, there = m.copies(m.home), m.copies("aggregate")
        if given and not there:
            found.missing.add(m.sequence)
            if m.expired:
                found.expired.add(m.sequence)
        found.duplicates += max(0, max(0, there - 1) - max(0, given - 1))
    for block, some in _blocks(messages).items():
        given_once = all(m.copies(m.home) < 2 and m.copies("aggregate") < 2 for m in some)
        same = all(bool(m.copies(m.home)) == bool(m.copies("aggregate")) for m in some)
        if (
            given_once
            and same
            and any(m.contents[m.home] != m.contents["aggregate"] for m in _in(some))
        ):
            found.corrupt.add(block)
    return found


def _at_the_group(messages: list[Message]) -> Expected:
    found = Expected()
    for m in messages:
        there = m.copies("aggregate")
        if is_left_out(m.sequence):
            if m.processed:
                found.explained.setdefault("filtered", set()).add(m.sequence)
        else:
            found.duplicates += max(0, m.processed - 1 - max(0, there - 1))
        if there and not m.processed:
            found.missing.add(m.sequence)
    return found


def _blocks(messages: list[Message]) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {}
    for m in messages:
        found.setdefault(m.sequence // BLOCK, []).append(m)
    return found


def _in(messages: list[Message]) -> list[Message]:
    return [m for m in messages if m.copies(m.home)]


def wrong_now(world: World, edge: str, window: int) -> list[str]:
    """What is wrong with a window at this moment, of what can be known by now: claims that were in
    time, of a producer that was ever heard of, and records that were counted."""
    found: list[str] = []
    for m in world.messages:
        if m.window != window:
            continue
        at, seen = m.home, m.counted
        if edge == f"producer-to-{at}":
            heard = f"producer-{m.instance}" in world.clusters[at].book.reporters
            told = heard and not m.late and m.outcome is not None
            if told and m.outcome is not None and m.outcome.name == "ACKNOWLEDGED":
                found += [f"{m.value!r} is missing"] * (m.copies(at) == 0)
            found += [f"{m.value!r} is repeated"] * (seen.get(at, 0) > 1)
        elif edge == f"{at}-to-aggregate":
            given, there = seen.get(at, 0), seen.get("aggregate", 0)
            found += [f"{m.value!r} is missing"] * (given > 0 and m.copies("aggregate") == 0)
            found += [f"{m.value!r} is repeated"] * (there > max(1, given))
        elif "group:" in edge:
            there = seen.get("aggregate", 0)
            found += [f"{m.value!r} was not processed"] * (there > 0 and not m.processed)
    return found
