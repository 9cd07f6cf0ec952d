"""Whether what two copiers have written is what they were given. Pure.

Values are the numbers of each partition, 0 to n - 1, so what a committed reader sees of a
partition must be these numbers in order: a missing, doubled, aborted or exchanged record is seen at
once. In a circle they are :mod:`circling`'s. Each is written with the name of its transaction, so
Jepsen's checks run over what was published, the copiers' transactions and what the reader read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from checks import anomalies
from circling import PARTITIONS, first, not_as_sent
from copied import never_asked, value_at
from operations import Ended, Operation, Poll, Send

SOURCE: Final = "input"
TARGET: Final = "output"
CIRCLE: Final = "circle"


class Copied(NamedTuple):
    """A record of the output, and when it was read, by the monotonic clock."""

    offset: int
    value: str
    at: float

    @property
    def text(self) -> str:
        """What of the input it is."""
        return self.value.partition("|")[0]


def problems(
    read: Sequence[Sequence[Copied]], count: int, copied: Sequence[Operation]
) -> list[str]:
    """Where the output is not the input: by number, and by Jepsen's checks of what was published,
    of what the reader read and of the copiers' transactions."""
    found: list[str] = []
    for partition, records in enumerate(read):
        for at, record in enumerate(records):
            if record.text != str(at):
                found.append(f"{TARGET}-{partition}: {record.text} where {at} belongs")
                break
        if len(records) != count // PARTITIONS:
            found.append(f"{TARGET}-{partition}: {len(records)} records")
    places = [f"{SOURCE}-{partition}" for partition in range(PARTITIONS)]
    texts = [(place, str(n)) for place in places for n in range(count // PARTITIONS)]
    return found + _anomalies(texts, copied, TARGET, read)


def circle_problems(
    read: Sequence[Sequence[Copied]], published: int, hops: int, copied: Sequence[Operation]
) -> list[str]:
    """As :func:`problems`, of :class:`CircleStory`."""
    found = not_as_sent([[one.text for one in records] for records in read], published, hops)
    texts = [(f"{CIRCLE}-{n % PARTITIONS}", first(n)) for n in range(published)]
    return found[:20] + _anomalies(texts, copied, CIRCLE, read)


def _anomalies(
    published: Iterable[tuple[str, str]],
    copied: Sequence[Operation],
    topic: str,
    read: Sequence[Sequence[Copied]],
) -> list[str]:
    """``published`` has (partition, text), without a transaction."""
    sends = [Send(place, value_at(place, text)) for place, text in published]
    history = [Operation("publisher", Ended.OK, sends), *copied]
    for partition, records in enumerate(read):
        place = f"{topic}-{partition}"
        polls = ((Poll(place, one.offset, value_at(place, one.value)), one.at) for one in records)
        history += [Operation("reader", Ended.OK, (poll,), at=at) for poll, at in polls]
    found = anomalies([*history, never_asked(history)])
    return [f"{one.name}: {one.text}" for one in found[:20]]
