"""Names that a command is asked about: one that the audit does not know has a reason, not an empty
list, which would read as "all is well"."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from sqlalchemy import Connection, Table, select, union

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.untrusted import escaped
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store.schema.tables import (
    incidents,
    progress,
    verdicts,
    watermarks,
    window_incidents,
)

_MOST_NEAR: Final = 5


def check_known(
    connection: Connection, deployment: Deployment, edge: str | None, topic: str | None
) -> None:
    """UserError: there is no such edge, or no such topic on any edge or cluster. None: any."""
    if edge is not None:
        judged = union(select(watermarks.c.edge), select(verdicts.c.edge))
        edges = {each.name for each in derive_edges(deployment)} | set(connection.scalars(judged))
        if edge not in edges:
            raise UserError(f"there is no edge {edge!r}", f"there are: {', '.join(sorted(edges))}")
    if topic is not None:
        # The smallest first: of verdicts there are millions, and they have a watermark.
        tables = (watermarks, progress, window_incidents, incidents, verdicts)
        if not any(_names(connection, table, topic) for table in tables):
            raise UserError(f"the audit knows no topic {topic!r}", _advice(connection, topic))


def _names(connection: Connection, table: Table, topic: str) -> bool:
    query = select(table.c.topic).where(table.c.topic == topic).limit(1)
    return connection.scalar(query) is not None


def _advice(connection: Connection, topic: str) -> str:
    known = connection.scalars(union(select(watermarks.c.topic), select(progress.c.topic)))
    near = get_close_matches(topic, list(known), n=_MOST_NEAR)
    if near:
        return f"names like it: {escaped(', '.join(near))}"
    return "see: tallymark audit overview; a new topic is known when its first messages are counted"
