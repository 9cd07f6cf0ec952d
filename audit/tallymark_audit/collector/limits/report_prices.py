"""What a monitoring event costs of the budget of its partition of the audit topic, see
:mod:`.openings`. Pure::

    a reporter without an earlier report                                      10, a back-fill 100
    a claim of a window far from now, but of a back-fill                       1
    a claim about a run without a report, as consumers name them               1
    a claim of another incarnation (``part``) of a cell than the one before    1
    a gap; a partition that the reporter has not named before (``copied``)     1

An event that exceeds the budget is not accepted at all, as if it had been lost: the claims of its
reporter are not complete until a later event replaces it. So its windows are UNKNOWN, and never
COMPLETE because it was left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tallymark_audit.collector.limits.openings import UNREPORTED, Budget
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.model.cells import RunName

CLUSTER: Final = 5
"""All producers of a cluster report on one topic: its partitions have so many times the budget."""
BACKFILL: Final = 10
"""Whose claims of long ago cost nothing: so many times the price of another reporter."""
TOO_MANY_REPORTS: Final = "too-many-reports"
"""The kind of incidents about events that were not taken in."""
Spoken = tuple[str, str, int]
"""Reporter, topic, partition."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known before an event is accepted: whether its ``reporter`` is; the runs that it
    names and that have ``reported``; the partitions of which its reporter has ``spoken``; and by
    cell (:func:`cell_of`), the part that was reported last (``parts``)."""

    reporter: bool
    reported: Collection[RunName]
    spoken: Collection[Spoken]
    parts: Mapping[int, int]


def price_of(event: AuditEvent, heard: Heard, budget: Budget, now: int) -> int:
    """The units that an event costs at ``now`` (ms)."""
    price = 0 if heard.reporter else UNREPORTED * (BACKFILL if event.backfill else 1)
    last: dict[int, int] = {}
    for cell in event.cells:
        stranger = cell.instance and (cell.server, cell.instance) not in heard.reported
        now_or_told = event.backfill or budget.is_current(cell.window_start, now, now)
        mine = cell_of(event, cell)
        again = last.get(mine, heard.parts.get(mine, cell.part)) != cell.part
        last[mine] = cell.part
        price += bool(stranger or not now_or_told or again)
    price += len(event.gaps)
    return price + len(spoken_of(event) - set(heard.spoken))


def cell_of(event: AuditEvent, cell: CellReport) -> int:
    """A hash of the reporter and the cell. Its seed is random: no sender can choose collisions."""
    place = cell.topic, cell.partition, cell.window_start
    return hash((event.reporter, *place, cell.server, cell.instance))


def spoken_of(event: AuditEvent) -> set[Spoken]:
    """The partitions on which the event reports progress."""
    return {(event.reporter, one.topic, one.partition) for one in event.copied}
