"""The age of the audit, on every page: read once a second for all of them.

At 10,000 topics it is a look at a row a partition, which is more than all else that a page reads.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import Deployment
from tallymark_audit.store import Store
from tallymark_audit.store.reading.age import AuditAge, audit_age

FRESH_MS: Final = 1_000
"""So long the age of one page holds for others."""
AWAY_MS: Final = 2_000
"""A store that could not be read is left alone for so long by pages that do not need it: where it
is locked, each attempt waits for seconds."""
MOST_SAID: Final = 300
"""Characters of what a driver says."""


class Ages:
    """One per application; threads share it. ``at`` may give what another snapshot of the store
    said, less than :data:`FRESH_MS` before."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._lock = Lock()
        self._at = -FRESH_MS
        self._age: AuditAge | None = None
        self._away_at = -AWAY_MS
        self._away = ""

    def at(self, connection: Connection, now: int) -> AuditAge:
        """The age at ``now`` (ms). SQLAlchemyError: the store cannot be read, and nothing is known
        that is still fresh."""
        age = self._fresh(now)
        if age is None:
            age = audit_age(connection, self._deployment, now)
            with self._lock:
                self._at, self._age = now, age
        return age

    def if_known(self, store: Store, now: int) -> tuple[AuditAge | None, str]:
        """The age at ``now``, for pages that are shown without it, too; None and why, where the
        store cannot be read."""
        with self._lock:
            if 0 <= now - self._away_at < AWAY_MS:
                return None, self._away
        try:
            with store.read() as connection:
                return self.at(connection, now), ""
        except SQLAlchemyError as error:
            why = why_away(error)
            with self._lock:
                self._away_at, self._away = now, why
            return None, why

    def _fresh(self, now: int) -> AuditAge | None:
        with self._lock:
            return self._age if 0 <= now - self._at < FRESH_MS else None


def why_away(error: Exception) -> str:
    """A sentence about a store that cannot be read, with what its driver says."""
    cause = getattr(error, "orig", None) or error
    return f"the audit store cannot be read now: {str(cause)[:MOST_SAID]}"
