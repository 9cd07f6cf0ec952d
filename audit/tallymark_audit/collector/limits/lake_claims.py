"""Which reports of loads are taken in: all that are owed, and no others.

Other reporters have budgets (:mod:`.report_prices`), since a report that was left out is made up
for by the next one. A load reports each commit once, a day of cells at a time, and what would be
left out would be missing for ever. So its reports are free where the cluster has a hop into the
lake, and left out where it has none.

The first load into a new lake brings everything that the cluster's logs still hold, weeks of
windows that are judged, packed, and not owed by the new hop. Its reports about these would unpack
them all: they are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import LAKE
from tallymark_audit.store.judged.graph import History, history


def parted(events: Iterable[AuditEvent]) -> tuple[list[AuditEvent], list[AuditEvent]]:
    """The events of loads, and those of others."""
    every = list(events)
    loads = [event for event in every if event.kind == LAKE]
    return loads, [event for event in every if event.kind != LAKE] if loads else every


def owed(connection: Connection, cluster: str, loads: Sequence[AuditEvent]) -> list[AuditEvent]:
    """These events of loads without cells of windows from before the cluster's hop into the lake
    carried their topic. None, if it has no such hop: what it gets later owes nothing of before.
    Before the first look at the settings nothing is known of hops, and all are taken."""
    if not loads:
        return []
    past, name = history(connection), f"{cluster}-to-{LAKE}"
    if not past.graphs:
        return list(loads)
    if not any(name in edges for _, edges in past.graphs):
        return []
    return [_since(past, name, event) for event in loads]


def _since(past: History, name: str, event: AuditEvent) -> AuditEvent:
    edge = next(edges[name] for _, edges in reversed(past.graphs) if name in edges)
    since = {topic: past.owed_from(edge, topic) for topic in {c.topic for c in event.cells}}
    kept = [c for c in event.cells if not since[c.topic] or c.window_start >= since[c.topic]]
    return replace(event, cells=tuple(kept)) if len(kept) < len(event.cells) else event
