"""How much there was, by tier: of archived windows from the table ``totals``, of the others from
their cells. What dashboards draw over weeks, and what asks "are both counts alike" reads.

A window's total is written when it is archived and taken back when it is unpacked. The coarser
spans are sums of the finer ones and are made anew whenever one of these changed, so nothing is ever
counted into them twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, delete, select, union

from tallymark_audit.model import sketches
from tallymark_audit.model.cells import GROUP
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import (
    claims,
    collectors,
    observations,
    progress,
    reporters,
    totals,
)
from tallymark_audit.store.schema.upsert import upsert

WINDOW: Final = 0
"""The span of a window's own total, whatever its length."""
MINUTES_10: Final = 600_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
COARSE: Final = (MINUTES_10, HOUR, DAY)


class Piece(NamedTuple):
    """Totals of one ``span`` that start from ``low`` up to ``high`` (ms, excluded)."""

    span: int
    low: int
    high: int


class Total(NamedTuple):
    """Messages of one (cluster, tier) that start at ``start`` (ms) and within the span asked for,
    each counted once, and their bytes. ``tier``: ``producer`` (what was claimed), ``cluster`` (what
    was counted) or ``group:<name>`` (what was processed)."""

    cluster: str
    tier: str
    start: int
    messages: int
    bytes: int
    latency: tuple[int, ...] = ()


def totals_of(
    connection: Connection, topic: str, start: int, end: int, span: int = DAY
) -> list[Total]:
    """The totals of a topic's windows that begin from ``start`` up to ``end`` (ms, excluded), by
    cluster and tier and ``span`` (ms), the earliest first. Exact for any bounds."""
    sums: dict[tuple[str, str, int], _Sum] = defaultdict(_Sum)
    for row in _archived(connection, topic, start, end, span):
        at = row["start"] - row["start"] % span
        sums[row["cluster"], row["tier"], at].add(row["count"], row["bytes"], row["latency"])
    for (cluster, window), found in _live(connection, topic, start, end).items():
        for tier, one in found.items():
            sums[cluster, tier, window - window % span].add(one.count, one.bytes, one.latency())
    return sorted(
        (
            Total(cluster, tier, at, one.count, one.bytes, tuple(one.latency()))
            for (cluster, tier, at), one in sums.items()
        ),
        key=lambda one: (one.start, one.cluster, one.tier),
    )


def remember(
    connection: Connection,
    cluster: str,
    topic: str,
    cells: Mapping[int, tuple[Sequence[Row], Sequence[Row]]],
) -> None:
    """Write the totals of windows that are being archived: by window, its rows of observations and
    of claims."""
    groups = _groups(connection, cluster, (row for _, said in cells.values() for row in said))
    rows = [
        _row(cluster, topic, WINDOW, window, tier, one)
        for window, (seen, said) in cells.items()
        for tier, one in _summed(seen, said, groups).items()
    ]
    upsert(connection, totals, rows)
    _roll_up(connection, cluster, topic, cells)


def forget(connection: Connection, cluster: str, topic: str, windows: Iterable[int]) -> None:
    """Take the totals of windows back: their cells are in the tables again."""
    windows = list(windows)
    connection.execute(
        delete(totals).where(
            totals.c.cluster == cluster,
            totals.c.topic == topic,
            totals.c.span == WINDOW,
            totals.c.start.in_(windows),
        )
    )
    _roll_up(connection, cluster, topic, windows)


class _Sum:
    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._sketch: sketches.Sketch = {}

    def add(self, count: int, size: int, latency: Sequence[int]) -> None:
        self.count += count
        self.bytes += size
        if latency:
            self._sketch = sketches.merged((self._sketch, sketches.from_store(latency)))

    def latency(self) -> list[int]:
        return sketches.to_list(self._sketch)


def _archived(connection: Connection, topic: str, start: int, end: int, span: int) -> list[Row]:
    found: list[Row] = []
    spans = [coarse for coarse in reversed(COARSE) if span % coarse == 0]
    for size, low, high in pieces(start, end, spans):
        query = select(totals).where(
            totals.c.topic == topic,
            totals.c.span == size,
            totals.c.start >= low,
            totals.c.start < high,
        )
        found += [dict(row) for row in connection.execute(query).mappings()]
    return found


def pieces(start: int, end: int, spans: Sequence[int]) -> list[Piece]:
    """A period cut into whole ``spans`` (longest first), with windows at its two ends."""
    if start >= end:
        return []
    if not spans:
        return [Piece(WINDOW, start, end)]
    span, *finer = spans
    low, high = start + -start % span, end - end % span
    if low >= high:
        return pieces(start, end, finer)
    return [*pieces(start, low, finer), Piece(span, low, high), *pieces(high, end, finer)]


def _live(
    connection: Connection, topic: str, start: int, end: int
) -> dict[tuple[str, int], dict[str, _Sum]]:
    """The sums of windows that are not archived, by cluster and window, and tier."""
    found: dict[tuple[str, int], dict[str, _Sum]] = {}
    known = union(select(collectors.c.cluster), select(progress.c.cluster))
    for (cluster,) in connection.execute(known).all():
        sides: list[dict[int, list[Row]]] = []
        for table in (observations, claims):
            query = select(table).where(
                table.c.cluster == cluster,
                table.c.topic == topic,
                table.c.window >= start,
                table.c.window < end,
            )
            side: dict[int, list[Row]] = defaultdict(list)
            for row in connection.execute(query).mappings():
                side[row["window"]].append(dict(row))
            sides.append(side)
        seen, said = sides
        groups = _groups(connection, cluster, (row for some in said.values() for row in some))
        for window in seen.keys() | said.keys():
            summed = _summed(seen.get(window, ()), said.get(window, ()), groups)
            found[cluster, window] = summed
    return found


def _summed(seen: Sequence[Row], said: Sequence[Row], groups: Mapping[str, str]) -> dict[str, _Sum]:
    """The sums of one window by tier. A message that several rows of a cell have counts once."""
    sums: dict[str, _Sum] = defaultdict(_Sum)
    cells: dict[tuple[Any, ...], list[list[int]]] = defaultdict(list)
    for row in (*seen, *said):
        tier = row["tier"]
        if tier == "consumer":
            tier = GROUP + groups.get(row["reporter"], "")
        sums[tier].add(_counted_only(row), row["bytes"], row["latency"])
        cell = tier, row["partition"], row["server"], row["instance"]
        cells[cell].append(_sequences(row))
    for (tier, *_), parts in cells.items():
        sums[tier].count += _size(parts)
    return sums


def _sequences(row: Row) -> list[int]:
    """The messages of a cell that have names, as flat ranges."""
    if "ranges" in row:
        ranges: list[int] = row["ranges"]
    else:
        ranges = row["accepted"] if row["acks"] == 0 else row["acknowledged"]
    return ranges


def _counted_only(row: Row) -> int:
    """The messages of a cell that have none: without a stamp, or more ranges than are kept."""
    if "ranges" in row:
        bare = not row["instance"] or row["fingerprint"]
        return int(row["count"]) if bare else 0
    return int(row["unstamped"]) + (int(row["summary"][1]) if row["summary"] else 0)


def _size(parts: Sequence[list[int]]) -> int:
    if len(parts) == 1:
        flat = parts[0]
        return sum(flat[1::2]) - sum(flat[::2]) + len(flat) // 2
    whole = RangeSet(pair for flat in parts for pair in zip(flat[::2], flat[1::2], strict=True))
    return whole.size


def _groups(connection: Connection, cluster: str, said: Iterable[Row]) -> dict[str, str]:
    """The groups of the consumers among the reporters."""
    names = sorted({row["reporter"] for row in said if row["tier"] == "consumer"})
    found: dict[str, str] = {}
    for at in range(0, len(names), 500):
        query = select(reporters.c.reporter, reporters.c.consumer_group).where(
            reporters.c.cluster == cluster, reporters.c.reporter.in_(names[at : at + 500])
        )
        found.update((reporter, group) for reporter, group in connection.execute(query))
    return found


def _roll_up(connection: Connection, cluster: str, topic: str, windows: Iterable[int]) -> None:
    """Make the coarser totals anew that these windows are part of."""
    changed, finer = set(windows), WINDOW
    for span in COARSE:
        changed = {at - at % span for at in changed}
        _sum_up(connection, cluster, topic, finer, span, sorted(changed))
        finer = span


def _sum_up(
    connection: Connection, cluster: str, topic: str, finer: int, span: int, starts: Sequence[int]
) -> None:
    mine = (totals.c.cluster == cluster, totals.c.topic == topic)
    sums: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
    for start in starts:
        parts = select(totals).where(
            *mine, totals.c.span == finer, totals.c.start >= start, totals.c.start < start + span
        )
        for row in connection.execute(parts).mappings():
            sums[start, row["tier"]].add(row["count"], row["bytes"], row["latency"])
    connection.execute(
        delete(totals).where(*mine, totals.c.span == span, totals.c.start.in_(starts))
    )
    rows = [_row(cluster, topic, span, start, tier, one) for (start, tier), one in sums.items()]
    upsert(connection, totals, rows)


def _row(cluster: str, topic: str, span: int, start: int, tier: str, one: _Sum) -> Row:
    return {
        "cluster": cluster,
        "topic": topic,
        "span": span,
        "start": start,
        "tier": tier,
        "count": one.count,
        "bytes": one.bytes,
        "latency": one.latency(),
    }
