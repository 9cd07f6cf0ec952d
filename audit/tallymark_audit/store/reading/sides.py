"""Both sides of one window on a hop, cell by cell: what is upstream, and what is downstream.

Into a mirror's target several hops lead, and their records lie in the same partitions. A cell is
given to a hop by the rule of the judge (:func:`tallymark_audit.judge.hops.paired`), so these rows
are those that the verdict was made of. A portion has the same cells on both sides: a cell of which
one side alone is shown would look like a loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, or_, select, tuple_

from tallymark_audit.judge.hops import ClusterTopic, Hop, hops_into, paired
from tallymark_audit.judge.hops import Sides as Counted
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.model.sides import CellFacts, Claim, Observation, merge_observations
from tallymark_audit.store.counted import archive
from tallymark_audit.store.counted.facts import topics_on
from tallymark_audit.store.schema.portions import MOST_BYTES, Portion, first_of
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import claims, observations, reporter_topics, reporters

Cell = tuple[int, str, str]
"""Partition, server and instance: a cell of a topic and window that are known."""
_AT_ONCE: Final = 5_000
"""Cells in one statement."""


@dataclass(frozen=True, slots=True)
class BothSides:
    """Rows of ``claims`` or ``observations``, those of the same cells on both sides. ``others``:
    how many rows of the same logs belong to other hops, and are in no list. Where records without a
    stamp are shared among hops, ``share`` of their row is how many this hop gets."""

    upstream: Portion
    downstream: Portion
    others: int = 0


class _Side(NamedTuple):
    """Where the rows of a side are. ``members``: only what these reporters have said."""

    table: Table
    cluster: str
    topic: str
    tier: str
    members: Select[tuple[str]] | None = None


def both_sides(
    connection: Connection,
    edge: Edge,
    edges: Iterable[Edge],
    topic: str,
    window: int,
    most: int,
    first: Sequence[Cell] = (),
) -> BothSides:
    """The rows of ``edge`` in a window; ``edges`` are all there are or were. At most so many rows
    of each side: those of the cells ``first``, then by partition, server and instance."""
    sides = _sides(edge, topic)
    packed = [_packed(connection, side, window) for side in sides]
    counts = [
        _cells(connection, side, window) + Counter(map(_cell, rows))
        for side, rows in zip(sides, packed, strict=True)
    ]
    others, shares = 0, dict[Cell, int]()
    hop = hop_of(edge, edges)
    if _mixed(hop):
        own, shares = _own(connection, hop, topic, window)
        others = sum(n for found in counts for cell, n in found.items() if cell not in own)
        counts = [Counter({c: n for c, n in found.items() if c in own}) for found in counts]
    shown = _first_cells(counts, first, most)
    everything = not others and len(shown) == len(counts[0].keys() | counts[1].keys())
    found = [
        _rows(connection, side, window, None if everything else shown) for side in sides
    ]  # a list of all cells would be a longer question than none
    rank = {cell: at for at, cell in enumerate(shown)}
    rows = [
        sorted(
            (row for row in [*mine, *old] if _cell(row) in rank), key=lambda row: rank[_cell(row)]
        )
        for mine, old in zip(found, packed, strict=True)
    ]
    up, down = _same_cells(*rows)
    down = [_told(edge, row, shares) for row in down]
    parts = [
        Portion(tuple(sorted(kept, key=_cell)), max(0, count.total() - len(kept)))
        for kept, count in zip((up, down), counts, strict=True)
    ]
    return BothSides(parts[0], parts[1], others)


def hop_of(edge: Edge, edges: Iterable[Edge]) -> Hop:
    """The edge with its surroundings, as its judge knows it."""
    every = {one.name: one for one in edges} | {edge.name: edge}
    hops = hops_into(tuple(every.values()), edge.home)
    return next(hop for hop in hops if hop.edge.name == edge.name)


def _sides(edge: Edge, topic: str) -> tuple[_Side, _Side]:
    there = edge.downstream_topic(topic)
    if edge.kind == "producer":
        up = _Side(claims, edge.downstream, topic, "producer")
    else:
        up = _Side(observations, edge.upstream, topic, "cluster")
    if not edge.reported:
        return up, _Side(observations, edge.downstream, there, "cluster")
    members = select(reporters.c.reporter).where(
        reporters.c.cluster == edge.upstream, reporters.c.consumer_group == edge.group
    )
    return up, _Side(claims, edge.upstream, topic, edge.kind, members)


def _mixed(hop: Hop) -> bool:
    """Whether other hops bring records to where this one ends."""
    return not hop.edge.reported and any(one.kind == "mirror" for one in hop.siblings)


def _own(
    connection: Connection, hop: Hop, topic: str, window: int
) -> tuple[set[Cell], dict[Cell, int]]:
    """The cells of the hop, and of those without a stamp how many records downstream are its."""
    edge, there = hop.edge, hop.edge.downstream_topic(topic)
    known = (
        {cluster: topics_on(connection, cluster) for cluster in set(hop.clusters())}
        if hop.renames
        else {}
    )
    ups = [(up, name) for up, names in hop.upstreams(topic, known).items() for name in names]
    here = edge.downstream, there
    counted = _observed(connection, [here, *ups], window)
    said = _Side(claims, edge.downstream, there, "producer")
    claimed = _cells(connection, said, window) + Counter(
        map(_cell, _packed(connection, said, window))
    )
    keys = (CellKey(there, partition, window, *run) for partition, *run in claimed)
    facts = paired(
        hop,
        topic,
        Counted(
            downstream=counted.get(here, {}),
            claims={key: Claim(key) for key in keys},
            above={place: counted.get(place, {}) for place in ups},
            parts={},
            homes=_homes(connection, hop, [here, *ups], window),
            passed={},
            counted_through=0,
        ),
    )
    return {_of(one) for one in facts}, {
        _of(one): one.observed_count for one in facts if one.observed_count is not None
    }


def _of(facts: CellFacts) -> Cell:
    return facts.key.partition, facts.key.server, facts.key.instance


def _observed(
    connection: Connection, places: Sequence[ClusterTopic], window: int
) -> dict[ClusterTopic, dict[CellKey, Observation]]:
    """Which cells were counted at these places, and how many records of each."""
    t = observations.c
    query = select(t.cluster, t.topic, t.partition, t.server, t.instance, t.count).where(
        t.window == window, t.tier == "cluster", _at(observations, places)
    )
    rows = [tuple(row) for row in connection.execute(query)]
    for cluster, name in places:
        rows += [
            (cluster, name, *_cell(row), row["count"])
            for row in _packed(connection, _Side(observations, cluster, name, "cluster"), window)
        ]
    found: dict[ClusterTopic, list[Observation]] = {}
    for cluster, name, partition, server, instance, count in rows:
        key = CellKey(name, partition, window, server, instance)
        found.setdefault((cluster, name), []).append(Observation(key, count))
    return {place: merge_observations(some) for place, some in found.items()}


def _homes(
    connection: Connection, hop: Hop, places: Sequence[ClusterTopic], window: int
) -> dict[str, str]:
    """On which cluster an instance reports that was seen in the window or publishes to the
    topic."""
    t, r, p = observations.c, reporters.c, reporter_topics.c
    seen = select(t.instance).where(t.window == window, _at(observations, places))
    names = sorted({name for _, name in places})
    publishing = select(p.reporter).where(p.topic.in_(names))
    query = select(r.instance, r.cluster).where(
        r.cluster.in_(sorted(hop.may_be_home())),
        r.tier == PRODUCER,
        or_(r.instance.in_(seen), r.reporter.in_(publishing)),
    )
    found: dict[str, str] = {}
    found.update((instance, cluster) for instance, cluster in connection.execute(query))
    return found


def _at(table: Table, places: Iterable[ClusterTopic]) -> ColumnElement[bool]:
    return or_(
        *(and_(table.c.cluster == cluster, table.c.topic == topic) for cluster, topic in places)
    )


def _first_cells(counts: Sequence[Counter[Cell]], first: Sequence[Cell], most: int) -> list[Cell]:
    """The first cells whose rows are at most so many on each side; one at least."""
    there = set().union(*counts)
    rest = sorted(there.difference(first))
    shown: list[Cell] = []
    sizes = [0] * len(counts)
    for cell in [*(one for one in dict.fromkeys(first) if one in there), *rest]:
        sizes = [size + found[cell] for size, found in zip(sizes, counts, strict=True)]
        if shown and max(sizes) > most:
            break
        shown.append(cell)
    return shown


def _same_cells(up: list[Row], down: list[Row]) -> tuple[list[Row], list[Row]]:
    """The first rows of both sides that are small enough together: a cell whole or not at all, but
    of the first cell as much as there is room for."""
    kept = [first_of(rows, len(rows), MOST_BYTES)[0] for rows in (up, down)]
    cut = {
        _cell(row) for rows, some in zip((up, down), kept, strict=True) for row in rows[len(some) :]
    }
    if not cut:
        return up, down
    whole = [[row for row in some if _cell(row) not in cut] for some in kept]
    return (whole[0], whole[1]) if any(whole) else (kept[0], kept[1])


def _told(edge: Edge, row: Row, shares: dict[Cell, int]) -> Row:
    if edge.reported:
        return {**row, "ranges": row["acknowledged"]}
    share = shares.get(_cell(row))
    return row if share is None else {**row, "share": share}


def _where(side: _Side, window: int) -> list[ColumnElement[bool]]:
    t = side.table.c
    where: list[ColumnElement[bool]] = [
        t.cluster == side.cluster,
        t.topic == side.topic,
        t.window == window,
        t.tier == side.tier,
    ]
    return where if side.members is None else [*where, t.reporter.in_(side.members)]


def _cells(connection: Connection, side: _Side, window: int) -> Counter[Cell]:
    """How many rows each cell has."""
    t = side.table.c
    query = select(t.partition, t.server, t.instance).where(*_where(side, window))
    return Counter((row[0], row[1], row[2]) for row in connection.execute(query))


def _rows(
    connection: Connection, side: _Side, window: int, cells: Collection[Cell] | None
) -> list[Row]:
    """The rows of these cells; None: of all."""
    t = side.table.c
    query = select(side.table).where(*_where(side, window))
    if cells is None:
        return _dicts(connection, query)
    wanted, found = list(cells), list[Row]()
    for start in range(0, len(wanted), _AT_ONCE):
        among = tuple_(t.partition, t.server, t.instance).in_(wanted[start : start + _AT_ONCE])
        found += _dicts(connection, query.where(among))
    return found


def _packed(connection: Connection, side: _Side, window: int) -> list[Row]:
    """The rows of the side, if the window is packed."""
    rows = archive.packed_rows(connection, side.table, side.cluster, side.topic, [window], set())
    rows = [row for row in rows if row["tier"] == side.tier]
    if side.members is not None and rows:
        ours = set(connection.scalars(side.members))
        rows = [row for row in rows if row["reporter"] in ours]
    return rows


def _cell(row: Row) -> Cell:
    return row["partition"], row["server"], row["instance"]


def _dicts(connection: Connection, query: Select[Any]) -> list[Row]:
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]
