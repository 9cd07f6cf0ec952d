"""Put both sides of an edge beside each other, cell by cell.

On a producer edge the claims are matched with what the cluster holds, on a consumer edge what the
cluster holds with what the group processed. Into a mirror's target several upstreams flow, and all
their records lie in the same partitions; cells carry the instance, so each upstream gets its own
back:

1. a cell that an upstream also holds belongs to that upstream's edge;
2. else the cell of an instance that reports on an upstream cluster, or on one that is mirrored into
   it, belongs there;
3. the rest belongs to the target's own producers, which may or may not claim it.

A mirror does not copy messages back into the cluster where they began, so nothing is missing there.

Records without a stamp carry no instance. Of them each edge gets what remains when the other
upstreams have theirs: a lack shows on every edge it may have happened on.

All cells here bear the edge's own name of the topic (:func:`renamed`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from tallymark_audit.model.cells import FILTERED, IN_DOUBT, CellKey, Edge, Explanation
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation

Observations = Mapping[CellKey, Observation]
Reasons = Mapping[CellKey, tuple[Explanation, ...]]
Side = TypeVar("Side", Claim, Observation)


def renamed(cells: Mapping[CellKey, Side], topic: str) -> dict[CellKey, Side]:
    """The cells as those of ``topic``, whatever the cluster they were counted in calls it."""
    found: dict[CellKey, Side] = {}
    for key, side in cells.items():
        if key.topic == topic:
            found[key] = side
        else:
            new = key._replace(topic=topic)
            found[new] = replace(side, key=new)
    return found


def producer_facts(
    claims: Mapping[CellKey, Claim],
    downstream: Observations,
    upstreams: Mapping[str, Observations] | None = None,
    homes: Mapping[str, str] | None = None,
) -> list[CellFacts]:
    """The cells of the edge from a cluster's producers.

    ``upstreams`` are the observations of the clusters mirrored into it, by cluster (none for a
    plain cluster); ``homes``: from which of them the records of an instance come."""
    upstreams, homes = upstreams or {}, homes or {}
    own: dict[CellKey, tuple[Observation | None, int | None]] = {}
    for key, seen in downstream.items():
        if key.stamped:
            if key in claims or not _mirrored_from(key, upstreams, homes):
                own[key] = seen, None
        else:
            left = seen.count - sum(_count(up, key) for up in upstreams.values())
            if left > 0:
                own[key] = seen, left
    keys = sorted({*claims, *own})
    return [_facts(key, claims.get(key), *own.get(key, (None, None))) for key in keys]


def mirror_facts(
    edge: Edge,
    upstreams: Mapping[str, Observations],
    downstream: Observations,
    homes: Mapping[str, str] | None = None,
    claimed_here: Iterable[CellKey] = (),
    in_flight: Container[CellKey] = (),
    reasons: Reasons | None = None,
) -> list[CellFacts]:
    """The cells of one mirror's edge. ``upstreams`` holds the observations of *every* cluster
    mirrored into the target; ``claimed_here`` are cells that the target's own producers claim.
    ``in_flight``: cells that the mirror is not known to have passed; ``reasons``: why messages of a
    cell could not be copied. An instance that ``homes`` puts into the target began there."""
    homes, local = homes or {}, set(claimed_here)
    mine = upstreams.get(edge.upstream, {})
    facts = [
        replace(
            _mirror_cell(edge, key, mine[key], upstreams, downstream),
            in_flight=key in in_flight,
            explained=(reasons or {}).get(key, ()),
        )
        for key in sorted(mine)
        if not (key.stamped and (key in local or homes.get(key.instance) == edge.downstream))
    ]
    for key in sorted(downstream.keys() - mine.keys()):
        if key.stamped and key not in local:
            elsewhere = any(key in cells for cells in upstreams.values())
            if not elsewhere and homes.get(key.instance) == edge.upstream:
                facts.append(_facts(key, None, downstream[key]))
    return facts


def consumer_facts(
    upstream: Observations,
    processed: Observations,
    filtered: Mapping[CellKey, RangeSet],
    in_flight: Container[CellKey] = (),
    doubted: Mapping[CellKey, RangeSet] | None = None,
    unreported: Mapping[CellKey, frozenset[str]] | None = None,
) -> list[CellFacts]:
    """The cells of the edge from a cluster to a group of consumers, which owes all there is.
    ``filtered``: sequences that the group left out on purpose; ``doubted``: those that a member had
    in hand when it died or gave them up. ``unreported``: see :func:`.copy_progress.unreported`."""
    found: list[CellFacts] = []
    for key in sorted({*upstream, *processed}):
        held = upstream.get(key)
        said = (FILTERED, filtered.get(key)), (IN_DOUBT, (doubted or {}).get(key))
        found.append(
            CellFacts(
                key,
                held.as_claim() if held else None,
                processed.get(key),
                tuple(Explanation(why, ranges) for why, ranges in said if ranges),
                in_flight=key in in_flight,
                unreported=(unreported or {}).get(key, frozenset()),
            )
        )
    return found


def _mirror_cell(
    edge: Edge,
    key: CellKey,
    upstream: Observation,
    upstreams: Mapping[str, Observations],
    downstream: Observations,
) -> CellFacts:
    seen = downstream.get(key)
    if key.stamped:
        return _facts(key, upstream.as_claim(), seen)
    others = sum(_count(cells, key) for name, cells in upstreams.items() if name != edge.upstream)
    left = (seen.count if seen else 0) - others
    return _facts(key, upstream.as_claim(), seen, min(upstream.count, max(0, left)))


def _facts(
    key: CellKey,
    claim: Claim | None,
    seen: Observation | None,
    observed_count: int | None = None,
) -> CellFacts:
    return CellFacts(key, claim, seen, observed_count=observed_count)


def _mirrored_from(
    key: CellKey, upstreams: Mapping[str, Observations], homes: Mapping[str, str]
) -> bool:
    return homes.get(key.instance) in upstreams or any(key in up for up in upstreams.values())


def _count(cells: Observations, key: CellKey) -> int:
    seen = cells.get(key)
    return seen.count if seen else 0
