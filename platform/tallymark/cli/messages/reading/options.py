"""The options shared by commands that read a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

from tallymark.cli.messages.reading.spans import Span, find_spans
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import UserError
from tallymark.shell.positions import (
    BEGINNING,
    END,
    Position,
    parse_offset,
    parse_partitions,
    parse_time,
)

F = TypeVar("F", bound=Callable[..., Any])

_OFFSET = "Begin there: beginning, end, an offset, or -N for the last N of each partition."
_TIME = "Begin with the first message of that time: 2026-01-31T12:00:00Z, or 10m for 10 min ago."


def range_options(function: F) -> F:
    """``--from-beginning``, ``--offset``, ``--from-time``, ``--to-time``, ``--until-end``,
    ``--partitions``, ``--isolation``."""
    for option in (
        click.option(
            "--isolation",
            type=click.Choice(["read_uncommitted", "read_committed"]),
            default="read_uncommitted",
            help="Whether to leave out what transactions aborted or have not ended.",
        ),
        click.option("-p", "--partitions", metavar="0,2-4", help="Only these."),
        click.option("-e", "--until-end", is_flag=True, help="End at the present end of the log."),
        click.option(
            "--to-time", metavar="TIME", help="End before the first message of that time."
        ),
        click.option("--from-time", metavar="TIME", help=_TIME),
        click.option("-o", "--offset", metavar="WHERE", help=_OFFSET),
        click.option("--from-beginning", is_flag=True, help="Begin with the oldest message."),
    ):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Range:
    """From where to where, of which partitions; ``end`` None: for ever. ``isolation`` is the
    consumer's."""

    start: Position
    end: Position | None
    partitions: frozenset[int] | None
    isolation: Literal["read_uncommitted", "read_committed"]

    def spans(self, consumer: SimpleConsumer, topics: Sequence[str]) -> list[Span]:
        """The offsets of each partition, as the logs are now."""
        return find_spans(consumer, topics, self.start, self.end, self.partitions)


def take_range(
    options: dict[str, Any], *, start: Position = END, end: Position | None = None
) -> Range:
    """What the options of :func:`range_options` say, taken out of ``options``; ``start`` and
    ``end`` where they say nothing. UserError when they contradict each other."""
    beginning = options.pop("from_beginning")
    offset, from_time = options.pop("offset"), options.pop("from_time")
    to_time, until_end = options.pop("to_time"), options.pop("until_end")
    partitions = parse_partitions(options.pop("partitions"))
    if sum((beginning, offset is not None, from_time is not None)) > 1:
        raise UserError(
            "--from-beginning, --offset and --from-time all say where to begin", "give one of them"
        )
    if until_end and to_time is not None:
        raise UserError("--to-time and --until-end both say where to end", "give one of them")
    if beginning:
        start = BEGINNING
    elif offset is not None:
        start = parse_offset(offset)
    elif from_time is not None:
        start = parse_time(from_time)
    if until_end:
        end = END
    elif to_time is not None:
        end = parse_time(to_time)
    _check_order(start, end)
    return Range(start, end, partitions, options.pop("isolation"))


def _check_order(start: Position, end: Position | None) -> None:
    """Nothing would be read between two times that are exchanged, without a word why."""
    if end is None or not start.kind == end.kind == "time":
        return
    if end.value <= start.value:
        raise UserError("--to-time is not after --from-time", "of 2h and 1h, 2h is the earlier one")
