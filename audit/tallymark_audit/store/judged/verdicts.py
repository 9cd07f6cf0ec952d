"""Verdicts in the store: the present one, its revisions, and which of two sources holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    or_,
    select,
)

from tallymark.errors import UserError
from tallymark_audit.judge.apart import is_unjudged
from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State, Verdict
from tallymark_audit.model.cells import EdgeWindow
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.judged.effective import COLLECTOR, SPARK, effective
from tallymark_audit.store.judged.sums import WINDOW_MS, ChangedVerdicts
from tallymark_audit.store.judged.verdict_changes import note_change
from tallymark_audit.store.judged.worst_cells import keep_worst_cells
from tallymark_audit.store.schema.portions import first_of
from tallymark_audit.store.schema.rows import Row, cell_to_json, is_cells
from tallymark_audit.store.schema.tables import SUMS, verdict_history, verdicts
from tallymark_audit.store.schema.upsert import upsert

__all__ = [
    "COLLECTOR",
    "MAX_CELLS",
    "MAX_CELL_BYTES",
    "SPARK",
    "WRONG",
    "accept",
    "effective",
    "locate_cells",
    "record_verdicts",
]

MAX_CELLS = 1000
"""Cells kept with one verdict, the worst first; the sums are always of all of them."""
MAX_CELL_BYTES = 1 << 20
"""And about so many bytes of them as JSON."""
_UNDECIDED = tuple(str(state) for state in UNDECIDED)
WRONG = ("missing", "duplicates", "unclaimed")
"""The counts of which more is worse."""
# Held until the end of the transaction: the sums are changed by the difference to these.
_HELD = (
    select(verdicts)
    .where(
        verdicts.c.edge == bindparam("edge"),
        verdicts.c.topic == bindparam("topic"),
        verdicts.c.source == bindparam("source"),
        verdicts.c.window.in_(bindparam("windows", expanding=True)),
    )
    .order_by(verdicts.c.window)
    .with_for_update()
)


def record_verdicts(
    connection: Connection,
    judged: Iterable[Verdict],
    source: str,
    now_ms: int,
    window_ms: int = WINDOW_MS,
    changed: ChangedVerdicts | None = None,
) -> list[Verdict]:
    """Write verdicts and return those that changed: a first verdict, another state, or other counts
    in a decided one. These get the next revision and a row of history. A window without messages is
    left out, unless it had messages before that were claimed or decided. A verdict about messages
    that were only doubted, and turned out to belong to another edge, is withdrawn. The sums and the
    incidents follow; with ``changed`` when the caller says so, as a transaction with several calls
    has to, at its end. Windows are ``window_ms`` long.

    ``now_ms`` of Spark's verdicts is when their run looked at the logs. Runs overlap, and one that
    looked earlier may end later: a verdict of an older look never replaces one of a newer look."""
    judged = list(judged)
    if source == SPARK and judged:
        note_change(connection, source)  # two runs that end at once take turns from here on
    old = _present(connection, judged, source)
    if source == SPARK:
        judged = [verdict for verdict in judged if _looked_at(old.get(_key(verdict))) <= now_ms]
    sums = changed or ChangedVerdicts(connection, window_ms)
    withdrawn = _withdraw(connection, judged, source, old)
    for key in withdrawn:
        sums.note(key, source, old[key], None)
    rows: list[Row] = []
    history: list[Row] = []
    news: list[Verdict] = []
    for verdict in judged:
        key = _key(verdict)
        before = old.get(key)
        if key in withdrawn or (before is None and _holds_nothing(verdict)):
            continue
        row = _row(verdict, source, now_ms, before)
        if before is None or _differs(row, before):
            news.append(verdict)
            history.append(row)
            rows.append(row)
        elif source == SPARK or _drifted(row, before):
            # Spark looked again; or an open window filled up. The same revision, as of now.
            rows.append(row)
    if (rows or withdrawn) and source != SPARK:
        note_change(connection, source)
    upsert(connection, verdicts, rows)
    keep_worst_cells(connection, [(old.get(_place(row)), row) for row in rows], now_ms)
    kept = verdict_history.columns.keys()
    upsert(connection, verdict_history, [{name: row[name] for name in kept} for row in history])
    for row in rows:
        sums.note(_place(row), source, old.get(_place(row)), row)
    if changed is None:
        sums.write(now_ms)
    return news


def accept(
    connection: Connection,
    edge: str,
    topic: str,
    window: int,
    who: str,
    note: str,
    now_ms: int,
    window_ms: int = WINDOW_MS,
) -> State:
    """An operator accepts a window as it is: the watermark passes it, and the faults stay recorded.
    The acceptance holds until more faults are found. ``who`` empty: withdraw the acceptance.
    Returns the window's state. UserError: there is no such window, or nothing in it to accept."""
    place = (verdicts.c.edge == edge, verdicts.c.topic == topic, verdicts.c.window == window)
    query = select(verdicts).where(*place).order_by(verdicts.c.source).with_for_update()
    rows = [dict(row) for row in connection.execute(query).mappings()]
    if not rows:
        raise UserError(
            f"there is no verdict of {topic} on {edge} for the window {utc(window)}",
            "see: tallymark audit verdicts",
        )
    held = select(verdicts.c.state).where(*place, effective())
    state = State(connection.execute(held).scalar_one())
    if who and (state in GOOD or state in (State.OPEN, State.SETTLING)):
        raise UserError(f"the window is {state}: there is nothing to accept")
    if not who and not any(row["accepted_by"] for row in rows):
        raise UserError("the window is not accepted: there is nothing to take back")
    note_change(connection, "person")
    said = f"accepted by {who}" if who else "no longer accepted"
    kept = verdict_history.columns.keys()
    sums = ChangedVerdicts(connection, window_ms)
    for row in rows:
        before = dict(row)
        row |= {"accepted_by": who[:255], "revision": row["revision"] + 1}
        told = [f"{said}: {note}" if note else said, *row["reasons"]]
        line = {name: row[name] for name in kept} | {"reasons": told, "judged_at": now_ms}
        upsert(connection, verdicts, [row])
        upsert(connection, verdict_history, [line])
        sums.note((edge, topic, window), row["source"], before, row)
    sums.write(now_ms)
    return state


def locate_cells(
    connection: Connection,
    row: Row,
    located: Mapping[int, list[Row]],
    changed: Mapping[int, list[Sequence[int]]] | None = None,
) -> None:
    """Add to a verdict the offsets of its missing messages, and which were ``changed``; both are by
    the index of the cell. Of a cell that is ``located`` upstream has been ``searched``: what was
    not found is not there."""
    cells = [
        {
            **cell,
            "located": located.get(at, cell["located"]),
            "searched": at in located or cell.get("searched", False),
            "changed": (changed or {}).get(at, cell.get("changed", [])),
        }
        for at, cell in enumerate(row["cells"])
    ]
    note_change(connection, "located")
    connection.execute(
        verdicts.update()
        .where(
            verdicts.c.edge == row["edge"],
            verdicts.c.topic == row["topic"],
            verdicts.c.window == row["window"],
            verdicts.c.source == row["source"],
            verdicts.c.revision == row["revision"],
        )
        .values(cells=cells)
    )


def _present(
    connection: Connection, judged: list[Verdict], source: str
) -> dict[tuple[str, str, int], Row]:
    wanted: dict[tuple[str, str], list[int]] = {}
    for verdict in judged:
        wanted.setdefault((verdict.edge, verdict.topic), []).append(verdict.window)
    found: dict[tuple[str, str, int], Row] = {}
    for (edge, topic), windows in sorted(wanted.items()):
        for some in chunks(sorted(windows)):
            place = {"edge": edge, "topic": topic, "source": source, "windows": some}
            for row in connection.execute(_HELD, place).mappings():
                found[edge, topic, row["window"]] = dict(row)
    return found


def _key(verdict: Verdict) -> EdgeWindow:
    return verdict.edge, verdict.topic, verdict.window


def _place(row: Row) -> EdgeWindow:
    return row["edge"], row["topic"], row["window"]


def _looked_at(before: Row | None) -> int:
    """When (ms) the run looked of which a verdict is known; before all times without one."""
    return before["judged_at"] if before else -1


def _withdraw(
    connection: Connection, judged: Iterable[Verdict], source: str, old: Mapping[EdgeWindow, Row]
) -> set[EdgeWindow]:
    """Delete the verdicts of windows that are complete because they have no messages, if no fault
    in them was ever reported; returns these windows."""
    withdrawn: set[EdgeWindow] = set()
    for verdict in judged:
        key = _key(verdict)
        before = old.get(key)
        if before is None or before["claimed"] or before["accepted_by"]:
            continue
        if verdict.state not in GOOD or not _holds_nothing(verdict):
            continue
        if not _was_told_of(connection, key, source):
            for table in (verdicts, verdict_history):
                connection.execute(delete(table).where(*_of_window(table, key)))
            withdrawn.add(key)
    return withdrawn


def _was_told_of(connection: Connection, key: EdgeWindow, source: str) -> bool:
    """Whether anything was claimed or decided of the window, or another source judges it."""
    past = verdict_history.c
    counted = or_(*(past[name] != 0 for name in SUMS))
    decided = and_(past.state.not_in(_UNDECIDED), or_(past.state != str(State.COMPLETE), counted))
    told = (*_of_window(verdict_history, key), or_(past.claimed != 0, decided))
    other = (*_of_window(verdicts, key), verdicts.c.source != source)
    return bool(connection.scalar(select(or_(exists().where(*told), exists().where(*other)))))


def _of_window(table: Table, key: EdgeWindow) -> list[ColumnElement[bool]]:
    names = ("edge", "topic", "window")
    return [table.c[name] == value for name, value in zip(names, key, strict=True)]


def _holds_nothing(verdict: Verdict) -> bool:
    """Whether the window has no messages; of one that cannot be judged that is not known."""
    return not (verdict.claimed or verdict.observed or verdict.cells or is_unjudged(verdict))


def _row(verdict: Verdict, source: str, now_ms: int, before: Row | None) -> Row:
    row: Row = {
        "edge": verdict.edge,
        "topic": verdict.topic,
        "window": verdict.window,
        "source": source,
        "state": str(verdict.state),
        "revision": before["revision"] if before else 0,
        "judged_at": now_ms,
        **{name: getattr(verdict, name) for name in SUMS},
        "reasons": list(verdict.reasons),
        "cells": _first_cells(verdict),
        "accepted_by": before["accepted_by"] if before and not _worse(verdict, before) else "",
    }
    if before:
        _keep_located(row["cells"], before["cells"])
        if _differs(row, before):
            row["revision"] += 1
        elif source == COLLECTOR:
            row["judged_at"] = before["judged_at"]
    return row


def _first_cells(verdict: Verdict) -> list[Row]:
    return first_of(map(cell_to_json, verdict.cells), MAX_CELLS, MAX_CELL_BYTES)[0]


def _worse(verdict: Verdict, before: Row) -> bool:
    """Whether more is wrong than a person has accepted: that was not known then."""
    return any(getattr(verdict, name) > before[name] for name in WRONG)


def _keep_located(cells: list[Row], before: list[Row]) -> None:
    """What was located stays located while the same messages are missing."""
    identity = ("partition", "server", "instance")
    sound = before if is_cells(before) else []
    known: dict[Any, Row] = {tuple(cell[name] for name in identity): cell for cell in sound}
    for cell in cells:
        old = known.get(tuple(cell[name] for name in identity))
        if old and old["missing"] == cell["missing"]:
            cell["located"] = old["located"]
            cell["searched"] = old.get("searched", False)
        if old and old.get("corrupt") == cell["corrupt"]:
            cell["changed"] = old.get("changed", [])


def _differs(row: Row, before: Row) -> bool:
    if row["state"] != before["state"]:
        return True
    return row["state"] not in _UNDECIDED and _drifted(row, before)


def _drifted(row: Row, before: Row) -> bool:
    return any(row[name] != before[name] for name in (*SUMS, "reasons"))
