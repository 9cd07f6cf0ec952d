"""How old the audit is: collectors and what they have counted, against the clock. A page that shows
verdicts without it looks well when nothing is counted any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import Connection, func, select

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import collectors, progress

WINDOWS_LATE: Final = 2
"""So many windows beyond the settle time the audit may be behind."""


@dataclass(frozen=True, slots=True)
class SilentCollector:
    """What the audit waits for at a cluster. ``why``: ``silent``, its collector does not commit;
    ``behind``, it does, and ``partitions`` of the cluster are not counted up to now; ``never``,
    there has been none. ``collector``: the one that was last in charge. ``last_commit_ms`` and
    ``counted_through_ms``: 0 is never."""

    cluster: str
    collector: str
    why: Literal["silent", "behind", "never"]
    last_commit_ms: int
    counted_through_ms: int
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class AuditAge:
    """``judged_through_ms``: up to then every cluster was counted, 0 is never; what a page shows of
    later windows is not known. ``behind``: by cluster, where that is too long ago. ``allowed_ms``:
    how long it may be. ``begun``: whether any cluster was ever counted."""

    behind: tuple[SilentCollector, ...]
    judged_through_ms: int
    allowed_ms: int
    begun: bool = True

    @property
    def ok(self) -> bool:
        """Whether the audit is as of now."""
        return not self.behind


def audit_age(connection: Connection, deployment: Deployment, now: int) -> AuditAge:
    """The age of the audit at ``now`` (ms)."""
    allowed = allowed_ms(deployment.audit)
    told = {row["cluster"]: dict(row) for row in _rows(connection)}
    counted = _counted(connection, now - allowed)
    found: list[SilentCollector] = []
    through: list[int] = []
    for name in (one.name for one in deployment.clusters):
        collector, (oldest, newest, late) = told.get(name), counted.get(name, (0, 0, 0))
        last = max(collector["heartbeat"], newest) if collector else newest
        through.append(min(last, oldest) if name in counted else last)
        one = _silent(name, collector, last, oldest, late, now - allowed)
        if one is not None:
            found.append(one)
    return AuditAge(tuple(found), min(through, default=0), allowed, any(through))


def allowed_ms(audit: AuditSettings) -> int:
    """How long ago (ms) a cluster may have been counted."""
    return audit.settle_min_ms + WINDOWS_LATE * audit.window_ms


def _silent(
    name: str, collector: Row | None, last: int, oldest: int, late: int, since: int
) -> SilentCollector | None:
    owner = collector["owner"] if collector else ""
    if not last:
        return SilentCollector(name, owner, "never", 0, 0)
    if last < since:
        return SilentCollector(name, owner, "silent", last, oldest, late)
    if late:
        return SilentCollector(name, owner, "behind", last, oldest, late)
    return None


def _rows(connection: Connection) -> list[Row]:
    return [dict(row) for row in connection.execute(select(collectors)).mappings()]


def _counted(connection: Connection, since: int) -> Mapping[str, tuple[int, int, int]]:
    """By cluster: up to when the partition that is furthest behind was counted, and the one that is
    foremost (ms); and of how many that is before ``since``."""
    p = progress.c
    late = func.count().filter(p.counted_through < since)
    columns = (p.cluster, func.min(p.counted_through), func.max(p.counted_through), late)
    query = select(*columns).where(is_there(progress)).group_by(p.cluster)
    return {name: (low, high, few) for name, low, high, few in connection.execute(query)}
