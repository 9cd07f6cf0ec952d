"""A plan as a file: JSON that a person can read and take items out of.

{"version": 2, "made_at": ms,
 "items": [{"edge": ..., "from": {"cluster", "topic", "within": [[partition, first, last], ...],
                                  "places": [[partition, offsets first, last,
                                              sequences first, last], ...]},
            "to": {"cluster", "topic", "by_key"},
            "partition", "window", "server", "instance",         of the cell
            "missing": [first, last, ...], "count", "source", "revision", "refused"}, ...],
 "left": [{"edge", "topic", "window", "state", "count", "reason"}, ...]}
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.plan import NotRepaired, RepairPlan

VERSION: Final = 2


def write_plan(plan: RepairPlan, path: Path) -> None:
    """Save the plan. UserError: the file cannot be written."""
    try:
        path.write_text(json.dumps(to_json(plan), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the plan {path}: {error.strerror}") from error


def read_plan(path: Path) -> RepairPlan:
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
        return RepairPlan(
            int(raw["made_at"]),
            tuple(_item(item) for item in raw["items"]),
            tuple(NotRepaired(**one) for one in raw["left"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a repair plan: {error!r}", "make a new plan") from error


def to_json(plan: RepairPlan) -> dict[str, Any]:
    """The plan as JSON values; ranges are flat lists."""
    return {
        "version": VERSION,
        "made_at": plan.made_at,
        "items": [_item_to_json(item) for item in plan.items],
        "left": [asdict(one) for one in plan.left],
    }


def _item_to_json(item: RepairItem) -> dict[str, Any]:
    key = item.key
    return {
        "edge": item.edge,
        "from": {
            "cluster": item.upstream,
            "topic": key.topic,
            "within": [list(stretch) for stretch in item.within],
            "places": [list(place) for place in item.places],
        },
        "to": {"cluster": item.downstream, "topic": item.topic, "by_key": item.by_key},
        "partition": key.partition,
        "window": key.window,
        "server": key.server,
        "instance": key.instance,
        "missing": item.missing.to_list(),
        "count": item.count,
        "source": item.source,
        "revision": item.revision,
        "refused": item.refused,
    }


def _item(raw: dict[str, Any]) -> RepairItem:
    where, to = raw["from"], raw["to"]
    cell = (raw[name] for name in ("partition", "window", "server", "instance"))
    key = CellKey(where["topic"], *cell)
    missing = RangeSet.from_list(raw["missing"])
    return RepairItem(
        edge=raw["edge"],
        upstream=where["cluster"],
        downstream=to["cluster"],
        key=key,
        topic=to["topic"],
        missing=missing,
        count=missing.size or raw["count"],
        within=tuple(OffsetRange(*stretch) for stretch in where["within"]),
        places=tuple(MissingRun(*place) for place in where["places"]),
        by_key=to["by_key"],
        source=raw["source"],
        revision=raw["revision"],
        refused=raw["refused"],
    )
