"""What alerts and metrics read. The store sums up everything, so a result has as many rows as there
are edges and topics, not windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Text, case, cast, func, select

from tallymark_audit.judge.apart import UNJUDGED
from tallymark_audit.judge.states import UNDECIDED
from tallymark_audit.judge.verdicts import GOOD, State
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store.counted import facts
from tallymark_audit.store.judged.verdicts import COLLECTOR, effective
from tallymark_audit.store.schema.rows import Row, is_cells
from tallymark_audit.store.schema.tables import (
    alerts,
    collectors,
    lateness,
    reporters,
    runs,
    verdict_history,
    verdicts,
    watermarks,
)

WRONG: Final = (State.LOSS, State.DUPLICATION, State.MIXED, State.CORRUPT)
MILLIONTHS: Final = 1_000_000
_YOUNG: Final = (str(State.OPEN), str(State.SETTLING))
_UNDECIDED: Final = tuple(str(state) for state in UNDECIDED)
_GOOD: Final = tuple(str(state) for state in GOOD)
MAX_SILENT: Final = 1000
"""Silent reporters of a cluster that are named; more than that are one alert all the same."""
MAX_CORRUPT: Final = 1000
Column = Literal["missing", "duplicates"]


class WrongWindows(NamedTuple):
    """Decided windows of a topic on an edge that are not accepted: how many, their messages, and
    the newest (start, ms)."""

    edge: str
    topic: str
    windows: int
    messages: int
    newest: int


@dataclass(frozen=True, slots=True)
class Silent:
    """A reporter that has neither closed nor been retired, and has not reported since (ms)."""

    cluster: str
    reporter: str
    kind: str
    server: str
    application: str
    consumer_group: str
    last_heard: int


@dataclass(frozen=True, slots=True)
class StateTally:
    """The windows of a topic on an edge in one state, of a period, and the messages claimed and
    observed in them. ``share``: the part of the messages that is there in the worst window, in
    millionths, rounded down, a million only if it is complete; None while the windows are too
    young."""

    edge: str
    topic: str
    state: str
    windows: int
    claimed: int
    observed: int
    share: int | None


def wrong_windows(
    connection: Connection, edges: Collection[str], column: Column, above: int
) -> list[WrongWindows]:
    """Topics with windows in which more than ``above`` messages are missing (or as ``column``
    says), of those in which anything is wrong."""
    messages = verdicts.c[column]
    return _wrong(connection, edges, messages, WRONG, messages > above)


def unclaimed_windows(connection: Connection, edges: Collection[str]) -> list[WrongWindows]:
    """Topics with windows that have messages without a claim."""
    messages = verdicts.c.unclaimed
    return _wrong(connection, edges, messages, (*WRONG, State.UNCLAIMED), messages > 0)


def corrupt_windows(connection: Connection, edges: Collection[str]) -> list[WrongWindows]:
    """Topics with windows in which messages are not what was sent; ``messages``: how many of them
    are named, of the newest :data:`MAX_CORRUPT` windows."""
    found = _wrong(connection, edges, verdicts.c.observed, (State.CORRUPT,))
    return [one._replace(messages=_changed(connection, one)) for one in found]


def _changed(connection: Connection, one: WrongWindows) -> int:
    query = (
        select(verdicts.c.cells)
        .where(
            verdicts.c.edge == one.edge,
            verdicts.c.topic == one.topic,
            verdicts.c.state == str(State.CORRUPT),
            verdicts.c.accepted_by == "",
            effective(),
        )
        .order_by(verdicts.c.window.desc())
        .limit(MAX_CORRUPT)
    )
    cells = [cell for some in connection.scalars(query) if is_cells(some) for cell in some]
    return sum(len(cell.get("changed", ())) for cell in cells)


def unjudged_windows(connection: Connection, edges: Collection[str]) -> list[WrongWindows]:
    """Topics with windows that cannot be judged (:mod:`tallymark_audit.judge.apart`)."""
    said = cast(verdicts.c.reasons, Text).like(f'["{UNJUDGED}%')
    return _wrong(connection, edges, verdicts.c.claimed, (State.UNKNOWN,), said)


def marks(connection: Connection, edges: Collection[str]) -> list[Row]:
    """The watermarks of the edges."""
    query = select(watermarks).where(watermarks.c.edge.in_(edges))
    query = query.order_by(watermarks.c.edge, watermarks.c.topic)
    return [dict(row) for row in connection.execute(query).mappings()]


def young_since(connection: Connection, edge: str, topic: str, window: int) -> int:
    """Since when (ms) a window is OPEN, SETTLING or UNKNOWN; if it has become good, since then.
    0: it had an alarm since it was last good, or there is no verdict. An alarm whose window is
    counted again has not ended by that."""
    past = verdict_history.c
    query = select(past.state, past.judged_at).where(
        past.edge == edge, past.topic == topic, past.window == window
    )
    since = 0
    for state, at in connection.execute(
        query.order_by(past.judged_at.desc(), past.revision.desc())
    ):
        if state in _GOOD:
            return since or at  # it has become good, and the watermark is not written yet
        if state not in _UNDECIDED:
            return 0
        since = at
    return since


def silent_reporters(connection: Connection, cluster: str, silence_ms: int) -> list[Silent]:
    """Those that are silent as far as the audit topic has been read: a collector that lags behind
    is no reason to blame them. The first of them longest."""
    read_through = facts.counted_through(connection, cluster, AUDIT_TOPIC)
    query = (
        select(*[reporters.c[name] for name in Silent.__slots__])
        .where(
            reporters.c.cluster == cluster,
            reporters.c.closed.is_(False),
            ~facts.RETIRED,
            reporters.c.last_heard < read_through - silence_ms,
        )
        .order_by(reporters.c.last_heard)
        .limit(MAX_SILENT)
    )
    return [Silent(**row) for row in connection.execute(query).mappings()]


def reporting_groups(connection: Connection, cluster: str) -> set[str]:
    """The consumer groups with a run that reports, or has reported and closed."""
    query = select(reporters.c.consumer_group).where(
        reporters.c.cluster == cluster, reporters.c.consumer_group != ""
    )
    return {row.consumer_group for row in connection.execute(query.distinct())}


def heartbeats(connection: Connection) -> Mapping[str, int]:
    """When (ms) the collector of each cluster last committed; 0 where nothing is known of it."""
    query = select(collectors.c.cluster, collectors.c.heartbeat)
    return {row.cluster: row.heartbeat for row in connection.execute(query)}


def tallies(
    connection: Connection, edges: Collection[str], start: int, end: int, span: int
) -> dict[int, list[StateTally]]:
    """The windows from ``start`` up to ``end`` (ms, excluded) as the collectors judge them, by
    ``span`` (ms), and by edge, topic and state."""
    t = verdicts.c
    some = (
        select(t.edge, t.topic, t.state, t.window, t.claimed, t.observed, t.missing)
        .where(
            t.edge.in_(edges),
            t.state.in_([str(state) for state in State]),  # all, for the sake of the index
            t.window >= start,
            t.window < end,
            t.source == COLLECTOR,
        )
        .cte("some")
        .prefix_with("MATERIALIZED")
    )
    c = some.c
    there = (c.claimed - c.missing) * MILLIONTHS
    # Where nothing is claimed: not by a division, SQLite has no rounded NULL.
    share = func.min(case((c.claimed > 0, there // c.claimed)))
    at = c.window - c.window % span
    sums = (func.count(), func.sum(c.claimed), func.sum(c.observed), share)
    query = select(at, c.edge, c.topic, c.state, *sums).group_by(at, c.edge, c.topic, c.state)
    found: dict[int, list[StateTally]] = {}
    for since, edge, topic, state, windows, claimed, observed, least in connection.execute(query):
        worst = _share(state, least)
        one = StateTally(edge, topic, state, windows, int(claimed), int(observed), worst)
        found.setdefault(since, []).append(one)
    return found


def _share(state: str, least: int | None) -> int | None:
    """``StateTally.share``; of windows without a claim all is there."""
    if state in _YOUNG:
        return None
    share = MILLIONTHS if least is None else int(least)
    return share if state in _GOOD else min(share, MILLIONTHS - 1)


def latency(connection: Connection, names: Collection[str], day: int) -> list[Row]:
    """How late records came on a day (ms of its midnight): sketches by ``edge`` and ``topic``."""
    query = select(lateness).where(lateness.c.edge.in_(names), lateness.c.day == day)
    query = query.order_by(lateness.c.edge, lateness.c.topic)
    return [dict(row) for row in connection.execute(query).mappings()]


def alert_counts(connection: Connection) -> dict[tuple[str, str, str], int]:
    """How many alerts are not over, by rule, severity and status."""
    query = select(alerts.c.labels, alerts.c.status).where(alerts.c.status != "resolved")
    found: dict[tuple[str, str, str], int] = {}
    for labels, status in connection.execute(query):
        if not isinstance(labels, dict):
            continue
        key = labels.get("alertname", ""), labels.get("severity", ""), status
        found[key] = found.get(key, 0) + 1
    return found


def jobs(connection: Connection) -> list[Row]:
    """The newest finished run of each job, whatever its result: a job that finds faults has done
    its work."""
    newest = select(func.max(runs.c.id)).where(runs.c.finished_at > 0).group_by(runs.c.job)
    query = select(runs).where(runs.c.id.in_(newest)).order_by(runs.c.job)
    return [dict(row) for row in connection.execute(query).mappings()]


def _wrong(
    connection: Connection,
    edges: Collection[str],
    messages: ColumnElement[int],
    states: Collection[State],
    *conditions: ColumnElement[bool],
) -> list[WrongWindows]:
    # Found by the index of states first and summed up then: SQLite would rather read all there is
    # in the order of the groups.
    some = (
        select(verdicts.c.edge, verdicts.c.topic, verdicts.c.window, messages.label("messages"))
        .where(
            verdicts.c.edge.in_(edges),
            verdicts.c.state.in_([str(state) for state in states]),
            verdicts.c.accepted_by == "",
            *conditions,
            effective(),
        )
        .cte("some")
        .prefix_with("MATERIALIZED")
    )
    c = some.c
    query = select(c.edge, c.topic, func.count(), func.sum(c.messages), func.max(c.window))
    query = query.group_by(c.edge, c.topic).order_by(c.edge, c.topic)
    return [
        WrongWindows(edge, topic, windows, int(total), newest)
        for edge, topic, windows, total, newest in connection.execute(query)
    ]
