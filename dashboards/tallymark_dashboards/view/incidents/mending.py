"""What of an incident can be repaired, summed up over its first windows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallymark_audit.repair.next_steps import Step
from tallymark_audit.repair.repairable import NotRepairable, Repairability


@dataclass(frozen=True, slots=True)
class Mending:
    """``repairable`` of ``of`` missing messages of ``windows`` windows, of ``wrong`` that are wrong
    now. ``steps`` and ``tell`` are about the first of them (start, ms). ``starts_of`` and
    ``starts_at``: see :class:`~tallymark_audit.repair.repairable.Repairability`."""

    first: int
    windows: int
    wrong: int
    of: int
    repairable: int
    unsure: int
    saved: int
    others: tuple[NotRepairable, ...]
    steps: tuple[Step, ...]
    tell: tuple[str, ...]
    starts_of: str
    starts_at: int


def mending(found: Sequence[tuple[int, Repairability]], wrong: int) -> Mending | None:
    """``found``: windows (start, ms) that are wrong, the earliest first. None: none is."""
    if not found:
        return None
    first, steps = found[0]
    reasons: dict[str, int] = {}
    for _, one in found:
        for other in one.others:
            reasons[other.reason] = reasons.get(other.reason, 0) + other.count
    others = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return Mending(
        first=first,
        windows=len(found),
        wrong=wrong,
        of=sum(one.of for _, one in found),
        repairable=sum(one.repairable for _, one in found),
        unsure=sum(one.unsure for _, one in found),
        saved=sum(one.saved for _, one in found),
        others=tuple(NotRepairable(count, reason) for reason, count in others),
        steps=steps.steps,
        tell=steps.tell,
        starts_of=steps.starts_of,
        starts_at=min(one.starts_at for _, one in found),
    )
