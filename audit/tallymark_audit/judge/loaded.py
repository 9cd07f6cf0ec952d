"""What the tables of the lake report as loaded, and the cells of the hop into the lake. Pure.

A table reports each commit's rows as a part of their cells, and parts add up: a record that two
commits brought is there twice. Rows in the quarantine table are not in the table, and it is known
why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from tallymark_audit.judge.processed import processed_cells
from tallymark_audit.judge.states import ReporterFacts
from tallymark_audit.model.cells import QUARANTINED, CellKey, Explanation
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation, merge_observations


@dataclass(frozen=True, slots=True)
class Loaded:
    """By window (start, ms): the rows of each cell, the sequences of it that are in quarantine, and
    how many rows there have no sequence, or more than may be listed."""

    cells: dict[int, dict[CellKey, Observation]]
    quarantined: dict[int, dict[CellKey, RangeSet]]
    unnamed: dict[int, dict[CellKey, int]]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Loaded:
        """From one claim a commit and cell."""
        rows: dict[int, list[Observation]] = defaultdict(list)
        quarantined: dict[int, dict[CellKey, RangeSet]] = defaultdict(dict)
        unnamed: dict[int, dict[CellKey, int]] = defaultdict(dict)
        for claim in claims:
            key, at = claim.key, claim.key.window
            rows[at] += processed_cells(claim)
            if claim.failed:
                quarantined[at][key] = quarantined[at].get(key, EMPTY) | claim.failed
            if claim.summary is not None and claim.summary.failed:
                unnamed[at][key] = unnamed[at].get(key, 0) + claim.summary.failed
        cells = {at: merge_observations(some) for at, some in rows.items()}
        return cls(cells, dict(quarantined), dict(unnamed))


def current_tables(reporters: Iterable[ReporterFacts]) -> list[ReporterFacts]:
    """Of tables of the same name the one that was made last: what an older one held was deleted
    with it. The name of a reporter is ``lake-TABLE@ID``."""
    newest: dict[str, ReporterFacts] = {}
    for one in reporters:
        table = one.reporter.rpartition("@")[0]
        known = newest.get(table)
        if known is None or _age(one) > _age(known):
            newest[table] = one
    return list(newest.values())


def _age(reporter: ReporterFacts) -> tuple[int, int, str]:
    return reporter.first_seen, reporter.last_heard, reporter.reporter


def lake_facts(
    upstream: Mapping[CellKey, Observation],
    loaded: Loaded,
    window: int,
    in_flight: Container[CellKey],
    reasons: Mapping[CellKey, tuple[Explanation, ...]],
) -> list[CellFacts]:
    """The cells of a window of the hop from a cluster to the lake, which owes all there is.
    ``in_flight``: cells that the load has not come to; ``reasons``: why records of a cell could not
    be loaded."""
    rows = loaded.cells.get(window, {})
    aside, unnamed = loaded.quarantined.get(window, {}), loaded.unnamed.get(window, {})
    found: list[CellFacts] = []
    for key in sorted({*upstream, *rows}):
        held, why = upstream.get(key), reasons.get(key, ())
        if key in aside:
            why = (*why, Explanation(QUARANTINED, aside[key]))
        found.append(
            CellFacts(
                key,
                held.as_claim() if held else None,
                rows.get(key),
                why,
                in_flight=key in in_flight,
                excused=unnamed.get(key, 0),
            )
        )
    return found
