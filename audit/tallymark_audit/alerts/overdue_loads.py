"""The rule about loads into the lake that do not come. Pure.

A load is silent between two runs, an hour or a night, so its silence says nothing. What counts is
how long the oldest record that is not in the lake has waited for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tallymark_audit.alerts.conditions import Condition, condition
from tallymark_audit.alerts.payload import LINK
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.reading.alarms.backlogs import Backlog

LOAD: Final = "TallymarkLoadOverdue"
HOLD_MS: Final = 60_000


def overdue_loads(
    backlogs: Iterable[Backlog],
    overdue_ms: Mapping[str, int],
    now: int,
    link: Callable[[str], str],
) -> Iterator[Condition]:
    """One condition an edge and topic of which something has waited longer than the edge's
    ``overdue_ms``; ``link`` makes the address of a topic's page."""
    waiting: dict[tuple[str, str], list[Backlog]] = {}
    for one in backlogs:
        if now - one.oldest > overdue_ms.get(one.reader, now):
            waiting.setdefault((one.reader, one.topic), []).append(one)
    for (edge, topic), some in waiting.items():
        oldest, offsets = min(one.oldest for one in some), sum(one.offsets for one in some)
        yield condition(
            LOAD,
            "warning",
            {"edge": edge, "topic": topic},
            {
                "summary": f"{topic} on {edge}: nothing since {utc(oldest)} is loaded",
                "description": f"{offsets} offsets of {len(some)} partitions wait for the load, "
                f"longer than lake.overdue_ms ({overdue_ms[edge] // 1000} s). Windows that wait "
                "for it become UNKNOWN. See why the load did not run, and run it: tallymark load",
                LINK: link(topic),
            },
            HOLD_MS,
        )
