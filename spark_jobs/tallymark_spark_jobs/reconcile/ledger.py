"""What a run takes from the audit store, and what it leaves there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from tallymark.deployment import Deployment
from tallymark_audit.judge.settle_time import DAY_MS, LEARNED_DAYS
from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State, Verdict
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Edge, EdgeTopic, EdgeWindow
from tallymark_audit.model.edges import derive_edges, discovered_group
from tallymark_audit.store import Store
from tallymark_audit.store.counted import deleted, facts
from tallymark_audit.store.counted.damage import DAMAGED
from tallymark_audit.store.counted.groups import groups_on
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.counted.recounts import ask_for_windows
from tallymark_audit.store.judged import graph
from tallymark_audit.store.judged.sums import WINDOW_MS, ChangedVerdicts
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, locate_cells, record_verdicts
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema import tables
from tallymark_spark_jobs.reconcile.outcome import Outcome, to_json
from tallymark_spark_jobs.reconcile.reading.survey import ClusterSurvey
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan, located

LATER = frozenset({State.OPEN, State.SETTLING})
"""Not recorded: it says only that the run came early, and would hide the collector's verdict."""


def began_anew(store: Store, cluster: str) -> dict[str, int]:
    """By topic, since when (ms) its log is another one than before, or lacks a partition."""
    with store.read() as connection:
        return deleted.began_anew(connection, cluster)


def retired_reporters(store: Store) -> dict[str, frozenset[str]]:
    """By cluster, the reporters that a person has ended."""
    found: dict[str, set[str]] = {}
    table = tables.reporters
    query = select(table.c.cluster, table.c.reporter).where(
        table.c.retired_at > 0, table.c.last_heard <= table.c.retired_at
    )
    with store.read() as connection:
        for cluster, reporter in connection.execute(query):
            found.setdefault(cluster, set()).add(reporter)
    return {cluster: frozenset(names) for cluster, names in found.items()}


def changes_of(
    store: Store, clusters: Iterable[ClusterSurvey], period: Period
) -> dict[tuple[str, str], dict[int, int]]:
    """When (ms) collectors last saw the windows of the period change, by (cluster, topic): late
    data and repairs are given the settle time too, and logs are read until then. Empty where no
    collector runs."""
    table = tables.window_changes
    found: dict[tuple[str, str], dict[int, int]] = {}
    with store.read() as connection:
        for cluster in clusters:
            query = (
                select(table.c.topic, table.c.window, func.max(table.c.changed_at))
                .where(table.c.cluster == cluster.name, table.c.window < period.end)
                .group_by(table.c.topic, table.c.window)
            )
            if period.start is not None:
                query = query.where(table.c.window >= period.start)
            wanted = frozenset(cluster.topics)
            for topic, window, at in connection.execute(query):
                if topic in wanted:
                    found.setdefault((cluster.name, topic), {})[window] = at
    return found


def lateness(store: Store, as_of: int) -> dict[tuple[str, str], sketches.Sketch]:
    """How late records came in the last days, by counter and topic: of it settle times are
    learned."""
    since = as_of - as_of % DAY_MS - LEARNED_DAYS * DAY_MS
    table, found = tables.lateness, dict[tuple[str, str], sketches.Sketch]()
    query = select(table.c.edge, table.c.topic, table.c.sketch).where(table.c.day >= since)
    with store.read() as connection:
        for counter, topic, flat in connection.execute(query):
            both = (found.get((counter, topic), {}), sketches.from_list(flat))
            found[counter, topic] = sketches.merged(both)
    return found


def owed_from(
    store: Store, deployment: Deployment, topics: Iterable[str]
) -> dict[tuple[str, str], int]:
    """Since when (ms) a topic belongs to an edge, by edge and topic, if not from the beginning.
    Edges are as the collectors last stored them."""
    with store.read() as connection:
        known = graph.history(connection)
        groups = {one.name: groups_on(connection, one.name) for one in deployment.clusters}
    since = {
        (edge.name, topic): known.owed_from(edge, topic)
        for edge in derive_edges(deployment)
        for topic in topics
    }
    declared = {edge for edge, _ in since}
    for cluster, found in groups.items():
        for group, first in found.items():
            name = discovered_group(cluster, group, ()).name
            if name not in declared:
                since.update(((name, topic), at) for topic, at in first.items())
    return {place: at for place, at in since.items() if at}


def collector_states(store: Store, windows: Sequence[EdgeWindow]) -> dict[EdgeWindow, State]:
    """The collector's verdicts of these windows; UNKNOWN where it has none."""
    states = dict.fromkeys(windows, State.UNKNOWN)
    table = tables.verdicts
    wanted: dict[tuple[str, str], list[int]] = {}
    for edge, topic, window in windows:
        wanted.setdefault((edge, topic), []).append(window)
    with store.read() as connection:
        for (edge, topic), starts in wanted.items():
            for some in facts.chunks(starts):
                query = select(table.c.window, table.c.state).where(
                    table.c.edge == edge,
                    table.c.topic == topic,
                    table.c.source == COLLECTOR,
                    table.c.window.in_(some),
                )
                for window, state in connection.execute(query):
                    states[edge, topic, window] = State(state)
    return states


def record(
    store: Store,
    outcome: Outcome,
    started_at: int,
    finished_at: int,
    window_ms: int = WINDOW_MS,
) -> None:
    """Write the verdicts as Spark's, the offsets of their missing messages, and the run, all in one
    transaction. Repeating a run changes nothing but the list of runs, and where another run has
    looked later and ended earlier, its verdicts stay. Windows are ``window_ms`` long.

    Where the collectors have another result they are asked to count again, by themselves: records
    that they counted may be gone by now, and a copy that a repair brings back must not count as a
    second one."""
    decided = [verdict for verdict in outcome.verdicts if verdict.state not in LATER]
    result = to_json(outcome)
    detail = {
        name: result[name] for name in ("edges", "damaged_events", "damaged", "seconds", "exit")
    }
    with store.write() as connection:
        standing: list[Verdict] = []
        # Last, since collectors of these edges wait from there to the end.
        sums = ChangedVerdicts(connection, window_ms)
        for as_of, some in _by_look(outcome, decided):
            record_verdicts(connection, some, SPARK, as_of, changed=sums)
            standing += _standing(connection, some, as_of)
        for one in outcome.damaged:
            place = one.topic, one.partition, one.offset, one.end
            incident = Incident(DAMAGED, one.reason, *place)
            fold_incident(connection, one.cluster, incident, outcome.as_of)
        for verdict in standing:
            if any(cell.missing for cell in verdict.cells):
                _locate(connection, verdict, outcome.places)
        _doubt(connection, outcome, standing, finished_at)
        sums.write(finished_at)
        connection.execute(
            tables.runs.insert().values(
                job="reconcile",
                started_at=started_at,
                finished_at=finished_at,
                from_ms=outcome.period.start or 0,
                to_ms=outcome.period.end,
                outcome=result["outcome"],
                detail=detail,
            )
        )


def _by_look(outcome: Outcome, decided: Iterable[Verdict]) -> list[tuple[int, list[Verdict]]]:
    """The verdicts by when (ms) the run looked, since it looks again at what had not settled."""
    found: dict[int, list[Verdict]] = {}
    for verdict in decided:
        found.setdefault(outcome.looked_at(verdict), []).append(verdict)
    return sorted(found.items())


def _standing(connection: Connection, judged: Sequence[Verdict], as_of: int) -> list[Verdict]:
    """Those of which the store does not have the verdict of a newer look."""
    table, newer = tables.verdicts, set[EdgeWindow]()
    for (edge, topic), some in _by_topic(judged).items():
        query = select(table.c.window).where(
            table.c.edge == edge,
            table.c.topic == topic,
            table.c.source == SPARK,
            table.c.judged_at > as_of,
        )
        windows = set(connection.scalars(query))
        newer.update((edge, topic, one.window) for one in some if one.window in windows)
    return [one for one in judged if (one.edge, one.topic, one.window) not in newer]


def _by_topic(judged: Iterable[Verdict]) -> dict[EdgeTopic, list[Verdict]]:
    found: dict[EdgeTopic, list[Verdict]] = {}
    for verdict in judged:
        found.setdefault((verdict.edge, verdict.topic), []).append(verdict)
    return found


def _doubt(connection: Connection, outcome: Outcome, decided: Iterable[Verdict], now: int) -> None:
    """Ask the collectors at both ends of an edge to count the windows again for which they have
    another verdict."""
    edges = {edge.name: edge for edge in outcome.edges}
    for (name, topic), some in _by_topic(decided).items():
        windows = _judged_otherwise(connection, some)
        for cluster, there in counted_in(edges[name], topic) if windows else ():
            ask_for_windows(connection, cluster, there, windows, now)


COMPARED = ("observed", "missing", "duplicates", "unclaimed")


def _judged_otherwise(connection: Connection, judged: Sequence[Verdict]) -> set[int]:
    table, found = tables.verdicts, set[int]()
    by_window = {verdict.window: verdict for verdict in judged}
    columns = [table.c[name] for name in ("window", "state", *COMPARED)]
    for some in facts.chunks(sorted(by_window)):
        query = select(*columns).where(
            table.c.edge == judged[0].edge,
            table.c.topic == judged[0].topic,
            table.c.source == COLLECTOR,
            table.c.window.in_(some),
        )
        for row in connection.execute(query).mappings():
            mine = by_window[row["window"]]
            if mine.state in GOOD and row["state"] in GOOD:
                continue
            other = row["state"] != mine.state and row["state"] not in UNDECIDED
            if other or any(row[name] != getattr(mine, name) for name in COMPARED):
                found.add(mine.window)
    return found


def counted_in(edge: Edge, topic: str) -> list[tuple[str, str]]:
    """The clusters whose logs decide a verdict on the edge, each with its name of the topic."""
    there = (edge.downstream, edge.downstream_topic(topic))
    return {
        "producer": [there],
        "mirror": [(edge.upstream, topic), there],
        "consumer": [(edge.upstream, topic)],
        "lake": [(edge.upstream, topic)],
    }.get(edge.kind, [])


def _locate(
    connection: Connection, verdict: Verdict, places: Mapping[Identity, Sequence[LogSpan]]
) -> None:
    table = tables.verdicts
    query = select(table).where(
        table.c.edge == verdict.edge,
        table.c.topic == verdict.topic,
        table.c.window == verdict.window,
        table.c.source == SPARK,
    )
    row = connection.execute(query).mappings().one()
    at = {
        number: [place._asdict() for place in found]
        for number, cell in enumerate(verdict.cells)
        if (found := located(cell, places))
    }
    locate_cells(connection, dict(row), at)


def disagreements(store: Store, outcome: Outcome) -> tuple[dict[str, Any], ...]:
    """Windows of this run on which the collector came to something else: all of them."""
    mine: dict[EdgeTopic, set[int]] = {}
    for one in outcome.verdicts:
        mine.setdefault((one.edge, one.topic), set()).add(one.window)
    with store.read() as connection:
        return tuple(queries.disagreements_among(connection, mine))
