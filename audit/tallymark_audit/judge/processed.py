"""What the runs of a consumer group report, put together by window. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Claim, Observation, merge_observations


@dataclass(frozen=True, slots=True)
class Processed:
    """By window (start, ms), what the runs of a group say they processed, left out on purpose, and
    had in hand when they were gone."""

    cells: dict[int, dict[CellKey, Observation]]
    filtered: dict[int, dict[CellKey, RangeSet]]
    doubted: dict[int, dict[CellKey, RangeSet]]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Processed:
        """From one claim a run and cell. What two runs processed counts as often: that is how a
        record delivered twice shows."""
        seen: dict[int, list[Observation]] = defaultdict(list)
        filtered: dict[int, dict[CellKey, RangeSet]] = defaultdict(dict)
        doubted: dict[int, dict[CellKey, RangeSet]] = defaultdict(dict)
        for claim in claims:
            window = claim.key.window
            seen[window] += processed_cells(claim)
            _add(filtered[window], claim.key, claim.filtered)
            _add(doubted[window], claim.key, claim.in_doubt)
        cells = {window: merge_observations(some) for window, some in seen.items()}
        return cls(cells, dict(filtered), dict(doubted))


def processed_cells(claim: Claim) -> list[Observation]:
    """A consumer's report of a cell as what it saw: the stamped records, and those without a stamp,
    which are in a cell of their own."""
    found: list[Observation] = []
    key, told = claim.key, claim.summary
    if key.stamped and told is not None:
        count = told.acknowledged + claim.duplicate_count
        found.append(Observation(key, count, fingerprint=told.fingerprint, blocks=claim.blocks))
    elif key.stamped and claim.acknowledged:
        count = claim.acknowledged.size + claim.duplicate_count
        found.append(
            Observation(
                key,
                count,
                claim.bytes,
                claim.acknowledged,
                again=claim.again,
                blocks=claim.blocks,
            )
        )
    if claim.unstamped:
        bare = CellKey(key.topic, key.partition, key.window, "", "")
        found.append(Observation(bare, claim.unstamped))
    return found


def _add(found: dict[CellKey, RangeSet], key: CellKey, more: RangeSet) -> None:
    if more:
        found[key] = found.get(key, EMPTY) | more
