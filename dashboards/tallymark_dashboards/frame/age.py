"""The age of the audit, on every page: read once a second for all of them.

At 10,000 topics it is a look at a row a partition, which is more than all else that a page reads.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

from sqlalchemy import Connection

from tallymark.deployment import Deployment
from tallymark_audit.store.reading.age import AuditAge, audit_age

FRESH_MS: Final = 1_000
"""So long the age of one page holds for others."""


class Ages:
    """One per application; threads share it. ``at`` may give what another snapshot of the store
    said, less than :data:`FRESH_MS` before."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._lock = Lock()
        self._at = -FRESH_MS
        self._age: AuditAge | None = None

    def at(self, connection: Connection, now: int) -> AuditAge:
        """The age at ``now`` (ms). SQLAlchemyError: the store cannot be read, and nothing is known
        that is still fresh."""
        with self._lock:
            age = self._age
            if age is not None and 0 <= now - self._at < FRESH_MS:
                return age
        age = audit_age(connection, self._deployment, now)
        with self._lock:
            self._at, self._age = now, age
        return age
