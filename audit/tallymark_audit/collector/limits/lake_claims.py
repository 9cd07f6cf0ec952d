"""What a load reports of the time before there was a hop into the lake: it is not kept.

The first load into a new lake brings everything that the cluster's logs still hold, weeks of
windows that are judged, packed, and not owed by the new hop. Its reports would unpack them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import LAKE
from tallymark_audit.store.judged.graph import history


def owed_only(
    connection: Connection, cluster: str, events: Sequence[AuditEvent]
) -> Sequence[AuditEvent]:
    """The events, those of the lake without cells of windows from before the cluster's hop into it
    carried their topic. All of them, while no such hop is known."""
    if all(event.kind != LAKE for event in events):
        return events
    past, name = history(connection), f"{cluster}-to-{LAKE}"
    edge = next((edges[name] for _, edges in reversed(past.graphs) if name in edges), None)
    if edge is None:
        return events
    topics = {cell.topic for event in events if event.kind == LAKE for cell in event.cells}
    since = {topic: past.owed_from(edge, topic) for topic in topics}
    return [
        replace(
            event,
            cells=tuple(
                cell
                for cell in event.cells
                if not since[cell.topic] or cell.window_start >= since[cell.topic]
            ),
        )
        if event.kind == LAKE
        else event
        for event in events
    ]
