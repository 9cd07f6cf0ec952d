"""From options to rows: which input, which format, which time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeVar

from tallymark.errors import UserError
from tallymark.publishing.reading import access_log, host_metrics
from tallymark.publishing.reading.csv_rows import csv_rows
from tallymark.publishing.reading.detect import SAMPLE_LINES, detect
from tallymark.publishing.reading.inputs import Input, open_input
from tallymark.publishing.reading.json_lines import json_rows
from tallymark.publishing.reading.lines import split_lines
from tallymark.publishing.reading.rows import Bad, Line, Lines, Row, Rows, Stop
from tallymark.shell.times import event_time_ms

Item = TypeVar("Item")

FORMATS: Final = ("auto", "jsonl", "csv", "access-log", "metrics")
MAX_ROWS: Final = 10_000
MAX_CHARACTERS: Final = 16_000_000
"""Of the sample that a schema is inferred from."""

_READERS: Final[dict[str, Callable[[Lines], Rows]]] = {
    "jsonl": json_rows,
    "csv": csv_rows,
    "access-log": access_log.access_log_rows,
}


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to publish. ``schema`` is that of a format that has one, as JSON text; ``cells`` says
    that values are texts of CSV cells; ``total`` bytes and ``position`` are for progress."""

    name: str
    format: str
    rows: Rows
    schema: str | None
    cells: bool
    total: int | None
    position: Callable[[], int]
    close: Callable[[], None]


def open_source(path: str, kind: str, follow: bool, stop: Stop) -> Source:
    """A file (``-`` for standard input) as rows; ``kind`` is one of FORMATS but metrics.

    Raises UserError if it cannot be read or its format cannot be detected.
    """
    opened = open_input(path, follow, stop)
    try:
        lines = split_lines(opened.chunks())
        if kind == "auto":
            kind, lines = _detected(opened, lines, stop)
    except BaseException:
        opened.close()
        raise
    return Source(
        opened.name,
        kind,
        _READERS[kind](lines),
        json.dumps(access_log.SCHEMA) if kind == "access-log" else None,
        kind == "csv",
        opened.total,
        lambda: opened.position,
        opened.close,
    )


def metrics_source(interval_s: float, stop: Stop) -> Source:
    """Live metrics of this host."""
    return Source(
        "this host",
        "metrics",
        host_metrics.metric_rows(interval_s, stop),
        json.dumps(host_metrics.SCHEMA),
        False,
        None,
        lambda: 0,
        lambda: None,
    )


def _detected(opened: Input, lines: Lines, stop: Stop) -> tuple[str, Lines]:
    peeked: tuple[list[Line | Bad], Lines] = _peek(lines, SAMPLE_LINES, enough=_is_filled)
    sample, lines = peeked
    if not sample and stop.is_set():
        return "jsonl", lines  # ended before anything came: no rows, of whatever format
    return detect(opened.name, sample), lines


def _is_filled(line: Line | Bad) -> bool:
    return isinstance(line, Bad) or bool(line.text.strip())


def with_event_time(rows: Rows, field: str) -> Rows:
    """Take each row's time from one of its values; a row without a time there is Bad."""
    for row in rows:
        yield _timed(row, field) if isinstance(row, Row) else row


def _timed(row: Row, field: str) -> Row | Bad:
    if field not in row.values:
        return Bad(row.number, f"there is no {field} to take the event's time from", row.raw)
    try:
        return replace(row, time_ms=event_time_ms(row.values[field]))
    except ValueError as error:
        return Bad(row.number, f"{field}: {error}", row.raw)


@dataclass(frozen=True, slots=True)
class Shard:
    """Every ``count``-th row, from ``index`` on (from 0)."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``I/N``. Raises UserError."""
        index, slash, count = text.partition("/")
        if slash and index.isdecimal() and count.isdecimal() and int(index) < int(count):
            return cls(int(index), int(count))
        raise UserError(f"--shard {text} is not I/N", "I counts from 0: the halves are 0/2 and 1/2")

    def of(self, rows: Rows) -> Rows:
        """Rows and Bad ones count alike, so shards that read the same input miss none of it."""
        seen = -1
        for row in rows:
            seen += row is not None
            if row is None or seen % self.count == self.index:
                yield row


def sample_rows(rows: Rows) -> tuple[list[Row | Bad], Rows]:
    """Rows to infer a schema from, and all rows again."""
    peeked: tuple[list[Row | Bad], Rows] = _peek(
        rows, size=lambda row: len(row.raw), enough=lambda row: isinstance(row, Row)
    )
    return peeked


def _peek(
    items: Iterator[Item | None],
    count: int = MAX_ROWS,
    size: Callable[[Item], int] = lambda _: 0,
    enough: Callable[[Item], bool] = lambda _: True,
) -> tuple[list[Item], Iterator[Item | None]]:
    """The first items, and the whole stream again: nothing is taken away.

    Ends at ``count`` items or MAX_CHARACTERS by ``size``. A stream that pauses (None) ends the
    sample, too, if it has an item that is ``enough``: a live source must not wait for more.
    """
    sample: list[Item] = []
    characters = 0
    found = False
    for item in items:
        if item is None:
            if found:
                break
            continue
        sample.append(item)
        characters += size(item)
        found = found or enough(item)
        if len(sample) >= count or characters >= MAX_CHARACTERS:
            break
    return sample, chain(sample, items)
