"""Which offsets of which partitions a command reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import UserError
from tallymark.patterns import pattern_given
from tallymark.shell.absent import asking_about
from tallymark.shell.positions import Position


@dataclass(slots=True)
class Span:
    """Offsets [``position``, ``end``) of a partition; ``end`` None: for ever. ``position`` moves as
    it is read, ``epoch`` is the leader epoch of the record before it (-1: not known)."""

    topic: str
    partition: int
    position: int
    end: int | None
    epoch: int = -1

    @property
    def done(self) -> bool:
        """Whether all of it was read."""
        return self.end is not None and self.position >= self.end

    @property
    def left(self) -> int:
        """How many offsets are still to come; 0 when there is no end."""
        return 0 if self.end is None else max(0, self.end - self.position)


def find_spans(
    consumer: SimpleConsumer,
    topics: Iterable[str],
    start: Position,
    end: Position | None,
    partitions: frozenset[int] | None = None,
) -> list[Span]:
    """A span of every partition, as the log is now; of those in ``partitions`` only, if given.

    Raises UserError for a topic or partition that is not there.
    """
    spans: list[Span] = []
    for topic in topics:
        starts, ends = _offsets(consumer, topic)
        missing = (partitions or frozenset()) - starts.keys()
        if missing:
            raise UserError(
                f"{topic} has no partition {min(missing)}", f"it has {len(starts)}, from 0 on"
            )
        for partition in sorted(starts if partitions is None else partitions):
            first, last = starts[partition], ends[partition]

            def at_time(ms: int, topic: str = topic, partition: int = partition) -> int | None:
                return consumer.offset_for_time(topic, partition, ms)

            position = start.resolve(first, last, at_time)
            until = None if end is None else end.resolve(first, last, at_time)
            spans.append(Span(topic, partition, position, until))
    return spans


def matching_topics(consumer: SimpleConsumer, pattern: str) -> list[str]:
    """The topics whose whole name matches the regular expression; internal ones (leading ``_``)
    never do. UserError for a wrong expression, or when there is none."""
    expression = pattern_given("--pattern", pattern)
    names = [n for n in consumer.topics() if not n.startswith("_") and expression.fullmatch(n)]
    if not names:
        raise UserError(f"no topic matches {pattern!r}", "see 'tallymark topics list'")
    return sorted(names)


def _offsets(consumer: SimpleConsumer, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    with asking_about("topic", topic):
        return consumer.start_offsets(topic), consumer.end_offsets(topic)
