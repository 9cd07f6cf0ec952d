"""The window of a point in time: people say "five minutes ago", windows are named by their
start."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from tallymark_audit.store.schema.tables import verdicts


def window_at(connection: Connection, edge: str, topic: str, moment: int, window_ms: int) -> int:
    """The start (ms) of the judged window that holds ``moment`` (ms) on that edge; ``moment``
    itself where there is none. Windows are ``window_ms`` long."""
    found = connection.execute(
        select(func.max(verdicts.c.window)).where(
            verdicts.c.edge == edge, verdicts.c.topic == topic, verdicts.c.window <= moment
        )
    ).scalar_one()
    return found if found is not None and moment < found + window_ms else moment
