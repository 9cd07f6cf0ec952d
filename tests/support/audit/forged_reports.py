"""Monitoring events that somebody makes up, for a world of :mod:`judged_world`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judged_world import W, World
from sqlalchemy import Table, func, select

from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.testing import Told


def event(world: World, instance: bytes, **fields: Any) -> AuditEvent:
    """A report of a producer's run that tells nothing, but for ``fields``."""
    code = instance.hex()
    made = AuditEvent(
        kind="producer", tier="producer", reporter=f"producer-{code}", server="web",
        application="app", instance=code, event_number=0, covers_from=0, emitted_at=world.now,
        window_ms=W, complete_through=world.now, started_at=world.now,
    )  # fmt: skip
    return replace(made, **fields)


def tell(world: World, *events: AuditEvent) -> None:
    """Write the events to dc1's audit topic, as one batch."""
    log = world.clusters["dc1"].log(AUDIT_TOPIC)
    log.append([Told(None, world.now, encode_event(one)) for one in events])


def count_of(world: World, table: Table) -> int:
    """Rows of a table of the store."""
    with world.store.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0
