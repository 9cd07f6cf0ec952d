"""What was judged in a task as lines of JSON, which the driver reads: all verdicts, with cells only
where these are not complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.schema.rows import cell_from_json, cell_to_json
from tallymark_spark_jobs.reconcile.judging.groups import Judged
from tallymark_spark_jobs.reconcile.shapes.resolve import CellAt, Stretch
from tallymark_spark_jobs.reconcile.shapes.search import Identity, Search, together

_NUMBERS: Final = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")


def lines_of(judged: Judged) -> Iterator[tuple[str, str]]:
    """What was judged as lines: their kind, and JSON."""
    for verdict in judged.verdicts:
        yield "verdict", json.dumps(_verdict_to_json(verdict))
    for window in judged.deferred:
        yield "deferred", json.dumps(window)
    for cluster, search in judged.search.items():
        wanted = [[*identity, found.to_list()] for identity, found in search.wanted.items()]
        yield "search", json.dumps([cluster, wanted, search.stretches])
    for (cluster, key), stretches in judged.unresolved.items():
        yield "unresolved", json.dumps([cluster, key, stretches])


def judged_of(lines: Iterable[tuple[str, str]]) -> Judged:
    """The inverse, of the lines of all groups."""
    found = Judged()
    plans: list[dict[str, Search]] = []
    for kind, told in lines:
        raw: Any = json.loads(told)
        if kind == "verdict":
            found.verdicts.append(_verdict_from_json(raw))
        elif kind == "deferred":
            found.deferred.append(tuple(raw))
        elif kind == "search":
            plans.append({raw[0]: _search(raw[1], raw[2])})
        else:
            place: CellAt = (raw[0], CellKey(*raw[1]))
            found.unresolved[place] = tuple(Stretch(*one) for one in raw[2])
    found.search = together(plans)
    return found


def _search(wanted: list[list[Any]], stretches: list[list[Any]]) -> Search:
    return Search(
        {
            Identity(topic, partition, instance): RangeSet.from_list(flat)
            for topic, partition, instance, flat in wanted
        },
        [Stretch(*one) for one in stretches],
    )


def _verdict_to_json(verdict: Verdict) -> list[Any]:
    """A verdict in its parts."""
    return [
        [verdict.edge, verdict.topic, verdict.window, str(verdict.state)],
        [getattr(verdict, name) for name in _NUMBERS],
        verdict.reasons,
        [cell_to_json(cell) for cell in verdict.cells],
        None if verdict.held is None else str(verdict.held),
        verdict.young_until,
    ]


def _verdict_from_json(raw: list[Any]) -> Verdict:
    """The inverse."""
    (edge, topic, window, state), numbers, reasons, cells, held, young_until = raw
    counts: dict[str, int] = dict(zip(_NUMBERS, numbers, strict=True))
    return Verdict(
        edge,
        topic,
        window,
        State(state),
        **counts,
        reasons=tuple(reasons),
        cells=tuple(cell_from_json(cell) for cell in cells),
        held=None if held is None else State(held),
        young_until=young_until,
    )
