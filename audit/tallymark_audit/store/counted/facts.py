"""Read from the store what a judgement needs, for many windows at once.

Cells of windows that are packed read as the others do
(:mod:`tallymark_audit.store.counted.archive`). How far mirrors and groups have come is in
:mod:`tallymark_audit.store.counted.carried`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, and_, exists, func, select, union

from tallymark_audit.judge.copy_progress import Part
from tallymark_audit.judge.fact_source import Counted
from tallymark_audit.judge.verdicts import ReporterFacts
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.sides import Claim, Observation, merge_claims, merge_observations
from tallymark_audit.store.counted.archive import packed_rows
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.schema.rows import (
    Row,
    RowLike,
    claim_from_row,
    observation_from_row,
    reporter_from_row,
)
from tallymark_audit.store.schema.tables import (
    archive,
    claims,
    collectors,
    damage,
    lateness,
    observations,
    progress,
    reporter_topics,
    reporters,
    window_changes,
)

ByWindow = Mapping[int, Mapping[CellKey, Observation]]
T = TypeVar("T")
CHUNK = 500
"""Values in one IN (...)."""
RETIRED: Final[ColumnElement[bool]] = and_(
    reporters.c.retired_at > 0, reporters.c.last_heard <= reporters.c.retired_at
)
"""Of ``reporters``. A retired reporter that reports again is not retired any more."""


def observed(connection: Connection, cluster: str, topic: str, windows: Sequence[int]) -> ByWindow:
    """The observations of a cluster's counter, by window, each cell whole."""
    return counted(connection, cluster, topic, windows).cells


def counted(connection: Connection, cluster: str, topic: str, windows: Sequence[int]) -> Counted:
    """The observations of a cluster's counter, with the partitions they come from."""
    parts: dict[int, dict[CellKey, list[Part]]] = defaultdict(dict)
    for row in _rows(connection, observations, cluster, topic, windows):
        if row["tier"] == "cluster":
            part = Part(row["seen_partition"], observation_from_row(row))
            parts[row["window"]].setdefault(part.seen.key, []).append(part)
    cells = {
        window: merge_observations(part.seen for some in found.values() for part in some)
        for window, found in parts.items()
    }
    return Counted(cells, dict(parts))


def claimed(
    connection: Connection, cluster: str, topic: str, windows: Sequence[int]
) -> Mapping[int, dict[CellKey, Claim]]:
    """The claims on a cluster's audit topic, by window, each cell the union of its reporters."""
    found: dict[int, list[Claim]] = defaultdict(list)
    for row in _rows(connection, claims, cluster, topic, windows):
        if row["tier"] == "producer":
            found[row["window"]].append(claim_from_row(row))
    return {window: merge_claims(rows) for window, rows in found.items()}


def kept_windows(connection: Connection) -> Mapping[tuple[str, str], list[int]]:
    """The windows of which claims may be kept, archived ones too, by cluster and topic."""
    kept = [select(t.c.cluster, t.c.topic, t.c.window) for t in (claims, archive)]
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for cluster, topic, window in connection.execute(union(*kept)):
        found[cluster, topic].append(window)
    return found


def processed(
    connection: Connection,
    cluster: str,
    members: Collection[str],
    topic: str,
    windows: Sequence[int],
) -> Iterator[Claim]:
    """What these runs of a group, or tables of the lake, report as processed of a topic: one claim
    a run, or commit, and cell."""
    for row in _rows(connection, claims, cluster, topic, windows) if members else ():
        if row["reporter"] in members:
            yield claim_from_row(row)


def reporters_of(
    connection: Connection, cluster: str, topic: str, instances: Iterable[str]
) -> list[ReporterFacts]:
    """The producers that report on a cluster and publish to the topic, or are of the instances."""
    publishing = select(reporter_topics.c.reporter).where(
        reporter_topics.c.cluster == cluster, reporter_topics.c.topic == topic
    )
    conditions = [reporters.c.reporter.in_(publishing)]
    conditions += [reporters.c.instance.in_(some) for some in chunks(sorted(set(instances)))]
    found: dict[str, ReporterFacts] = {}
    for condition in conditions:
        query = select(reporters).where(
            reporters.c.cluster == cluster, reporters.c.tier == "producer", condition
        )
        for row in connection.execute(query).mappings():
            facts = reporter_facts(dict(row))
            found[facts.reporter] = facts
    return list(found.values())


def reporter_facts(row: Row) -> ReporterFacts:
    """A row of ``reporters`` as a judgement needs it."""
    return reporter_from_row(row).facts(retired=is_retired(row))


def is_retired(row: RowLike) -> bool:
    """:data:`RETIRED`, of a row that was read."""
    return bool(row["retired_at"] > 0 and row["last_heard"] <= row["retired_at"])


def homes(
    connection: Connection, clusters: Iterable[str], instances: Iterable[str]
) -> dict[str, str]:
    """On which of the clusters an instance reports what it produces."""
    found: dict[str, str] = {}
    places = sorted(set(clusters))
    for some in chunks(sorted(set(instances))):
        query = select(reporters.c.instance, reporters.c.cluster).where(
            reporters.c.instance.in_(some),
            reporters.c.cluster.in_(places),
            reporters.c.tier == "producer",
        )
        found.update((instance, cluster) for instance, cluster in connection.execute(query))
    return found


def topics_on(connection: Connection, cluster: str) -> frozenset[str]:
    """The topics that the cluster's collector knows."""
    query = select(progress.c.topic).where(progress.c.cluster == cluster).distinct()
    return frozenset(row.topic for row in connection.execute(query))


def counted_through(
    connection: Connection, cluster: str, topic: str, undamaged: bool = False
) -> int:
    """Up to when (ms) the cluster's collector had counted all there was of the topic; 0: never. Of
    a topic that does not exist (any more) it has counted all when it last looked for topics.
    ``undamaged``: leave out partitions that cannot be read to their end."""
    query = select(func.min(progress.c.counted_through)).where(
        progress.c.cluster == cluster, progress.c.topic == topic, is_there(progress)
    )
    if undamaged:
        query = query.where(
            ~exists().where(
                damage.c.cluster == progress.c.cluster,
                damage.c.topic == progress.c.topic,
                damage.c.partition == progress.c.partition,
                damage.c.to_offset < 0,
            )
        )
    through = connection.scalar(query)
    if through is None:
        through = connection.scalar(
            select(collectors.c.discovered_through).where(collectors.c.cluster == cluster)
        )
    return through or 0


class CountedThrough:
    """:func:`counted_through` of every topic of a cluster, with two questions."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        query = (
            select(progress.c.topic, func.min(progress.c.counted_through))
            .where(progress.c.cluster == cluster, is_there(progress))
            .group_by(progress.c.topic)
        )
        self._through: dict[str, int] = {}
        for topic, through in connection.execute(query):
            self._through[topic] = through
        query = select(collectors.c.discovered_through).where(collectors.c.cluster == cluster)
        self._discovered: int = connection.scalar(query) or 0

    def of(self, topic: str) -> int:
        """Up to when, ms."""
        return self._through.get(topic, self._discovered) or 0


def reported_through(connection: Connection, cluster: str) -> dict[str, list[int]]:
    """By topic, up to when (ms) each producer has reported that reports on the cluster and neither
    has ended (see :func:`reporter_facts`) nor fills in old data."""
    query = (
        select(reporter_topics.c.topic, reporters.c.complete_through)
        .join(
            reporters,
            (reporters.c.cluster == reporter_topics.c.cluster)
            & (reporters.c.reporter == reporter_topics.c.reporter),
        )
        .where(
            reporters.c.cluster == cluster,
            reporters.c.tier == "producer",
            reporters.c.closed.is_not(True),
            reporters.c.backfill.is_not(True),
            ~RETIRED,
        )
    )
    found: dict[str, list[int]] = {}
    for topic, through in connection.execute(query):
        found.setdefault(topic, []).append(through)
    return found


def changes(
    connection: Connection, clusters: Sequence[str], topic: str, windows: Sequence[int]
) -> dict[int, int]:
    """When (ms) a count or claim of a window last changed on any of the clusters."""
    found: dict[int, int] = {}
    for some in chunks(windows):
        query = (
            select(window_changes.c.window, func.max(window_changes.c.changed_at))
            .where(
                window_changes.c.cluster.in_(clusters),
                window_changes.c.topic == topic,
                window_changes.c.window.in_(some),
            )
            .group_by(window_changes.c.window)
        )
        found.update((window, at) for window, at in connection.execute(query))
    return found


def lateness_of(connection: Connection, counter: str, topic: str, since: int) -> sketches.Sketch:
    """How late records of the topic came to a counter (a cluster, or the name of a consumer edge)
    on the days since then (ms): a sketch of ms."""
    query = select(lateness.c.sketch).where(
        lateness.c.edge == counter, lateness.c.topic == topic, lateness.c.day >= since
    )
    return sketches.merged(sketches.from_store(row.sketch) for row in connection.execute(query))


def lateness_by_topic(
    connection: Connection, counter: str, since: int
) -> dict[str, sketches.Sketch]:
    """:func:`lateness_of` of every topic."""
    query = select(lateness.c.topic, lateness.c.sketch).where(
        lateness.c.edge == counter, lateness.c.day >= since
    )
    days: dict[str, list[sketches.Sketch]] = defaultdict(list)
    for topic, sketch in connection.execute(query):
        days[topic].append(sketches.from_store(sketch))
    return {topic: sketches.merged(some) for topic, some in days.items()}


def chunks(values: Sequence[T]) -> Iterable[Sequence[T]]:
    """The values in portions that fit one statement."""
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _rows(
    connection: Connection, table: Table, cluster: str, topic: str, windows: Sequence[int]
) -> list[Row]:
    """The rows of these windows, packed or not. Where a window is being unpacked both are there:
    then the table's row of a cell counts."""
    found: list[Row] = []
    for some in chunks(windows):
        query = select(table).where(
            table.c.cluster == cluster, table.c.topic == topic, table.c.window.in_(some)
        )
        found += map(dict, connection.execute(query).mappings())
    packed = list(packed_rows(connection, table, cluster, topic, windows))
    if not packed:
        return found
    keys = [column.name for column in table.primary_key]
    seen = {tuple(row[name] for name in keys) for row in found}
    return found + [row for row in packed if tuple(row[name] for name in keys) not in seen]
