"""Incidents in the store: what the verdicts of a transaction change about them, in the same
transaction (:mod:`tallymark_audit.judge.incidents`). The edge is locked (:mod:`.sums`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update

from tallymark_audit.judge.incidents import (
    Change,
    IncidentRun,
    Incidents,
    Member,
    Standing,
)
from tallymark_audit.judge.states import GOOD, state_of
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.balance import counts_of
from tallymark_audit.store.schema.rows import Row, RowLike
from tallymark_audit.store.schema.tables import incident_windows, repairs, window_incidents
from tallymark_audit.store.schema.upsert import upsert

_RUN = (
    "first_window", "last_window", "opened_at", "last_change", "closed_at", "windows", "bad",
    "accepted", "explained", "missing", "duplicates", "unclaimed", "worst_missing",
    "worst_duplicates", "worst_unclaimed", "repaired_by", "merged_into",
)  # fmt: skip
FAR = (1 << 63) - 1
"""The farthest that a window can be: a stranger's stamps name any time."""
REPAIRED_BY = "repair {number}"
"""How an incident names the repair that ended it."""
# Made once: when a broker fails, ten thousand topics have an incident in one transaction, and
# making these anew for each took as long as asking them.
_MEMBERS = select(incident_windows).where(
    incident_windows.c.edge == bindparam("edge"),
    incident_windows.c.topic == bindparam("topic"),
    incident_windows.c.window.in_(bindparam("windows", expanding=True)),
)
_NEAR = select(window_incidents).where(
    window_incidents.c.edge == bindparam("edge"),
    window_incidents.c.topic == bindparam("topic"),
    window_incidents.c.merged_into == 0,
    window_incidents.c.last_window >= bindparam("earliest"),
    window_incidents.c.first_window <= bindparam("latest"),
)
_NEW = window_incidents.insert().returning(window_incidents.c.id)


def standing_of(row: RowLike) -> Standing:
    """How a window stands by a row of ``verdicts``."""
    counts = counts_of(row)
    state = state_of(row["state"])
    return Standing(
        state,
        bool(row["accepted_by"]) and state not in GOOD,
        counts["missing"],
        counts["duplicates"],
        counts["unclaimed"],
    )


def follow(
    connection: Connection, edge: str, topic: str, changes: Sequence[Change], window_ms: int
) -> int:
    """Bring the incidents of a topic on an edge up to date with these changes. By how many there
    are more windows now, of incidents, that are not good."""
    known = _load(connection, edge, topic, changes, window_ms)
    before = sum(_is_bad(one) for one in known.members.values())
    bad = known.members.keys() | {one.window for one in changes if one.standing.state not in GOOD}
    repaired = {one.window for one in changes if one.standing.state in GOOD and one.window in bad}
    if repaired:
        by = _repairs(connection, edge, topic, repaired)
        changes = [one._replace(repaired_by=_repaired_by(by, one)) for one in changes]
    known.take(changes)
    _save(connection, edge, topic, known)
    return sum(_is_bad(one) for one in known.members.values()) - before


def _is_bad(member: Member) -> bool:
    return member.standing.state not in GOOD


def _load(
    connection: Connection, edge: str, topic: str, changes: Iterable[Change], window_ms: int
) -> Incidents:
    windows = sorted({one.window for one in changes})
    known = Incidents(window_ms)
    place = {"edge": edge, "topic": topic}
    for some in chunks(windows):
        for row in connection.execute(_MEMBERS, {**place, "windows": some}).mappings():
            known.members[row["window"]] = _member(row)
    near = {
        "earliest": max(windows[0] - known.reach, -FAR),
        "latest": min(windows[-1] + known.reach, FAR),
    }
    for row in connection.execute(_NEAR, {**place, **near}).mappings():
        known.runs[row["id"]] = _run(row)
    # A window whose incident was removed counts as one that was never bad.
    known.members = {at: one for at, one in known.members.items() if one.incident in known.runs}
    return known


def _repairs(
    connection: Connection, edge: str, topic: str, windows: Collection[int]
) -> Mapping[int, list[tuple[int, int]]]:
    """By window when (ms) repairs copied something of it, or found it there, and their numbers."""
    r = repairs.c
    query = (
        select(r.window, r.at, r.id)
        .where(r.edge == edge, r.topic == topic, r.window.in_(sorted(windows)))
        .where(or_(r.copied > 0, r.present > 0))
        .order_by(r.id)
    )
    found: dict[int, list[tuple[int, int]]] = {}
    for window, at, number in connection.execute(query):
        found.setdefault(window, []).append((at, number))
    return found


def _repaired_by(repaired: Mapping[int, list[tuple[int, int]]], change: Change) -> str:
    """The last repair before the change. Made anew from the history, later ones are known too."""
    before = [number for at, number in repaired.get(change.window, ()) if at <= change.at]
    return REPAIRED_BY.format(number=before[-1]) if before else ""


def _save(connection: Connection, edge: str, topic: str, known: Incidents) -> None:
    numbers: dict[int, int] = {}
    new = (one for one in known.touched if one < 0 and not known.runs[one].merged_into)
    for number in sorted(new, reverse=True):  # one that was merged at once was never seen
        row = _run_row(edge, topic, known.runs[number])
        numbers[number] = connection.execute(_NEW, row).scalar_one()
    for number in sorted(one for one in known.touched if one > 0):
        into = _merged_into(known, number)
        into = numbers.get(into, into)
        row = _run_row(edge, topic, known.runs[number]) | {"merged_into": into}
        t, w = window_incidents, incident_windows
        connection.execute(update(t).where(t.c.id == number).values(**row))
        if into:
            connection.execute(update(w).where(w.c.incident == number).values(incident=into))
    rows = [
        _member_row(edge, topic, known.members[window], numbers) for window in sorted(known.moved)
    ]
    upsert(connection, incident_windows, rows)


def _merged_into(known: Incidents, number: int) -> int:
    """The incident that has the windows of a merged one by now; 0 if it has them itself."""
    into_now = 0
    while into := known.runs[into_now or number].merged_into:
        into_now = into
    return into_now


def _run(row: RowLike) -> IncidentRun:
    return IncidentRun(row["id"], state_of(row["kind"]), **{name: row[name] for name in _RUN})


def _run_row(edge: str, topic: str, run: IncidentRun) -> Row:
    told: dict[str, Any] = {name: getattr(run, name) for name in _RUN}
    return {"edge": edge, "topic": topic, "kind": str(run.kind), "state": run.state, **told}


def _member(row: RowLike) -> Member:
    return Member(
        row["window"],
        row["incident"],
        Standing(
            state_of(row["state"]),
            bool(row["accepted"]),
            row["missing"],
            row["duplicates"],
            row["unclaimed"],
        ),
        Standing(
            state_of(row["worst_state"]),
            False,
            row["worst_missing"],
            row["worst_duplicates"],
            row["worst_unclaimed"],
        ),
        row["opened_at"],
        row["closed_at"],
    )


def _member_row(edge: str, topic: str, member: Member, numbers: Mapping[int, int]) -> Row:
    now, worst = member.standing, member.worst
    return {
        "edge": edge,
        "topic": topic,
        "window": member.window,
        "incident": numbers.get(member.incident, member.incident),
        "state": str(now.state),
        "accepted": now.accepted,
        "missing": now.missing,
        "duplicates": now.duplicates,
        "unclaimed": now.unclaimed,
        "worst_state": str(worst.state),
        "worst_missing": worst.missing,
        "worst_duplicates": worst.duplicates,
        "worst_unclaimed": worst.unclaimed,
        "opened_at": member.opened_at,
        "closed_at": member.closed_at,
    }
