"""The plan of a repair: which messages, from where to where. Made from the verdicts that hold,
written as JSON, and still valid when nothing is missing any more: applying it then does nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from tallymark.errors import UserError
from tallymark_audit.cells import CellKey, Edge
from tallymark_audit.locate import Stretch, stretches
from tallymark_audit.ranges import RangeSet
from tallymark_audit.store import queries
from tallymark_audit.store.rows import Row, cell_from_json
from tallymark_audit.verdicts import State

VERSION: Final = 1
MOST: Final = 100_000
"""Verdicts in one plan."""


@dataclass(frozen=True, slots=True)
class Item:
    """The missing messages of one cell on one edge. ``within``: where they lie upstream.
    ``refused``: why they cannot be copied, ``""`` if they can."""

    edge: str
    upstream: str
    downstream: str
    key: CellKey
    missing: RangeSet
    count: int
    within: tuple[Stretch, ...]
    source: str
    revision: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be repaired; ``made_at`` in ms."""

    made_at: int
    items: tuple[Item, ...]

    @property
    def count(self) -> int:
        """How many messages are to be copied."""
        return sum(item.count for item in self.items if not item.refused)


def make_plan(
    connection: Connection,
    edges: Iterable[Edge],
    now_ms: int,
    start: int | None = None,
    end: int | None = None,
    edge: str | None = None,
) -> Plan:
    """Every loss in the store, of windows from ``start`` to ``end`` (ms, excluded), on one edge or
    all. Where Spark has judged, its verdict counts. UserError: there is no such edge."""
    by_name = {each.name: each for each in edges}
    if edge is not None and edge not in by_name:
        raise UserError(
            f"there is no edge {edge!r}", f"the settings make these: {', '.join(by_name)}"
        )
    states = [State.LOSS, State.MIXED]
    rows = queries.windows(connection, edge=edge, start=start, end=end, states=states, limit=MOST)
    items = [
        _item(connection, by_name[row["edge"]], row, cell)
        for row in sorted(rows, key=lambda row: (row["window"], row["edge"], row["topic"]))
        if row["edge"] in by_name
        for cell in row["cells"]
        if cell["missing_count"]
    ]
    return Plan(now_ms, tuple(items))


def write_plan(plan: Plan, path: Path) -> None:
    """Save the plan. UserError: the file cannot be written."""
    try:
        path.write_text(json.dumps(to_json(plan), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the plan {path}: {error.strerror}") from error


def read_plan(path: Path) -> Plan:
    """The inverse of :func:`write_plan`. UserError: it cannot be read, or is no plan."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the plan {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", "make a new plan") from error
    try:
        if raw["version"] != VERSION:
            raise UserError(f"{path} is a plan of version {raw['version']}", "make a new plan")
        return Plan(raw["made_at"], tuple(_item_from_json(item) for item in raw["items"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a repair plan: {error!r}", "make a new plan") from error


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values; ranges are flat lists."""
    items = [
        {
            "edge": item.edge,
            "upstream": item.upstream,
            "downstream": item.downstream,
            **item.key._asdict(),
            "missing": item.missing.to_list(),
            "count": item.count,
            "within": [list(stretch) for stretch in item.within],
            "source": item.source,
            "revision": item.revision,
            "refused": item.refused,
        }
        for item in plan.items
    ]
    return {"version": VERSION, "made_at": plan.made_at, "items": items}


def _item(connection: Connection, edge: Edge, row: Row, raw: Row) -> Item:
    cell = cell_from_json(raw)
    within: list[Stretch] = []
    if edge.kind == "mirror" and cell.key.stamped:
        within = stretches(connection, edge.upstream, cell.key)
        within += [
            Stretch(place["partition"], place["first_offset"], place["last_offset"])
            for place in raw["located"]
            if place["cluster"] == edge.upstream
        ]
    return Item(
        edge=edge.name,
        upstream=edge.upstream,
        downstream=edge.downstream,
        key=cell.key,
        missing=cell.missing,
        count=cell.missing_count,
        within=tuple(sorted(set(within))),
        source=row["source"],
        revision=row["revision"],
        refused=_refusal(edge, cell.key, within),
    )


def _refusal(edge: Edge, key: CellKey, within: list[Stretch]) -> str:
    if edge.kind == "producer":
        return "the producer was told they are safe and no longer has them"
    if not key.stamped:
        return "records without a stamp are counted, not named"
    return "" if within else f"{edge.upstream} has no record of where they lie"


def _item_from_json(raw: dict[str, Any]) -> Item:
    key = CellKey(*(raw[name] for name in CellKey._fields))
    missing = RangeSet.from_list(raw["missing"])
    return Item(
        edge=raw["edge"],
        upstream=raw["upstream"],
        downstream=raw["downstream"],
        key=key,
        missing=missing,
        count=missing.size if key.stamped else raw["count"],
        within=tuple(Stretch(*stretch) for stretch in raw["within"]),
        source=raw["source"],
        revision=raw["revision"],
        refused=raw["refused"],
    )
