"""Put both sides of an edge beside each other, cell by cell.

On a producer edge the claims are matched with what the cluster holds. Into a mirror's target
several upstreams flow, and all their records lie in the same partitions; cells carry the
instance, so each upstream gets its own back:

1. a cell that an upstream also holds belongs to that upstream's edge;
2. else the cell of an instance that reports on an upstream cluster belongs there;
3. what is left belongs to the target's own producers, who claim it or do not.

Records without a stamp carry no instance. Of them each edge gets what remains when the other
upstreams have theirs: a lack shows on every edge it may have happened on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tallymark_audit.cells import CellKey, Edge
from tallymark_audit.sides import CellFacts, Claim, Observation

Counted = Mapping[CellKey, Observation]


def producer_facts(
    claims: Mapping[CellKey, Claim],
    downstream: Counted,
    upstreams: Mapping[str, Counted] | None = None,
    homes: Mapping[str, str] | None = None,
) -> list[CellFacts]:
    """The cells of the edge from a cluster's producers.

    ``upstreams`` are the observations of the clusters mirrored into it, by cluster (none for a
    plain cluster); ``homes`` tells the cluster an instance reports on."""
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
    upstreams: Mapping[str, Counted],
    downstream: Counted,
    homes: Mapping[str, str] | None = None,
    claimed_here: Iterable[CellKey] = (),
    passed: Mapping[int, int] | None = None,
) -> list[CellFacts]:
    """The cells of one mirror's edge. ``upstreams`` holds the observations of *every* cluster
    mirrored into the target; ``claimed_here`` are cells that the target's own producers claim.
    ``passed`` tells, by partition upstream, an offset that the mirror has surely copied: cells that
    reach beyond it may be under way. None: the mirror has ended its work, nothing is under way."""
    homes, local = homes or {}, set(claimed_here)
    mine = upstreams.get(edge.upstream, {})
    facts = [
        replace(
            _mirror_cell(edge, key, mine[key], upstreams, downstream),
            in_flight=passed is not None and mine[key].last_offset > passed.get(key.partition, -1),
        )
        for key in sorted(mine)
    ]
    for key in sorted(downstream.keys() - mine.keys()):
        if key.stamped and key not in local:
            elsewhere = any(key in cells for cells in upstreams.values())
            if not elsewhere and homes.get(key.instance) == edge.upstream:
                facts.append(_facts(key, None, downstream[key]))
    return facts


def _mirror_cell(
    edge: Edge,
    key: CellKey,
    upstream: Observation,
    upstreams: Mapping[str, Counted],
    downstream: Counted,
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
    key: CellKey, upstreams: Mapping[str, Counted], homes: Mapping[str, str]
) -> bool:
    return homes.get(key.instance) in upstreams or any(key in up for up in upstreams.values())


def _count(cells: Counted, key: CellKey) -> int:
    seen = cells.get(key)
    return seen.count if seen else 0
