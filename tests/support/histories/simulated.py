"""The history of a simulated run as operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from operations import Ended, Operation, Poll, Read, Send, Step

from tallymark.testing.simulation.history import Event, Fact, History

_TRANSACTIONS = {"committed": Ended.OK, "aborted": Ended.FAILED, "in doubt": Ended.IN_DOUBT}
_ENDS = {"acknowledged": Ended.OK, "refused": Ended.FAILED, "in doubt": Ended.IN_DOUBT}


def operations_of(history: History) -> list[Operation]:
    """Batches and polls. What is still under way at the end has an unknown outcome."""
    sent: dict[tuple[str, Fact], tuple[str, tuple[str, ...]]] = {}
    found: list[Operation] = []
    moved: set[str] = set()
    for event in history.events:
        match event.what:
            case "sent":
                key, values = str(event.facts[1]), tuple(map(str, event.facts[2:]))
                sent[event.who, event.facts[0]] = (key, values)
            case "acknowledged" | "refused" | "in doubt":
                key, values = sent.pop((event.who, event.facts[0]))
                base = event.facts[2] if event.what == "acknowledged" else -1
                found.append(_batch(event, key, values, base))
            case "cut to":
                moved.add(event.who)
            case "polled":
                partition, offset, _, value = event.facts
                assert isinstance(offset, int)
                poll = Poll(str(partition), offset, str(value))
                found.append(Operation(event.who, Ended.OK, (poll,), event.who in moved))
                moved.discard(event.who)
            case _:
                continue
    for (who, _), (key, values) in sent.items():
        sends = tuple(Send(key, value) for value in values)
        found.append(Operation(who, Ended.IN_DOUBT, sends))
    return found


def transactions_of(history: History) -> list[Operation]:
    """Transactions, with the times of their ends, and what readers of committed records saw. Those
    of a copier have what they read as well, which their copies name."""
    sent: dict[Fact, list[Step]] = defaultdict(list)
    asked: dict[Fact, float] = {}
    found: list[Operation] = []
    moved: set[str] = set()
    for event in history.events:
        who, number = event.who, event.facts[0] if event.facts else 0
        match event.what:
            case "writes":
                key = f"{event.facts[1]}-{event.facts[2]}"
                for written in map(str, event.facts[3:]):
                    sent[number] += [*_read_for(written), Send(key, written)]
            case "asks to commit":
                asked[number] = event.at
            case "committed" | "aborted" | "in doubt":
                ended = _TRANSACTIONS[event.what]
                steps = sent.pop(number, [])
                asked_at = asked.get(number)
                found.append(Operation(who, ended, steps, at=event.at, commit_asked=asked_at))
            case "cut to":
                moved.add(who)
            case "read committed":
                partition, offset, _, value = event.facts
                assert isinstance(offset, int)
                topic = "copied" if str(value).count("<") > 1 else "simulated"
                poll = Poll(f"{topic}-{partition}", offset, str(value))
                found.append(Operation(who, Ended.OK, (poll,), who in moved, event.at))
                moved.discard(who)
            case _:
                continue
    found.extend(Operation("", Ended.IN_DOUBT, steps) for steps in sent.values())
    return found


def _read_for(value: str) -> Iterator[Read]:
    """What a copy ``<9:1><7:2>`` was made of: ``<7:2>``."""
    _, _, source = value.partition(">")
    if source:
        yield Read(source)


def _batch(event: Event, key: str, values: tuple[str, ...], base: Fact) -> Operation:
    assert isinstance(base, int)
    sends = tuple(
        Send(key, value, base + at if base >= 0 else None) for at, value in enumerate(values)
    )
    return Operation(event.who, _ENDS[event.what], sends)
