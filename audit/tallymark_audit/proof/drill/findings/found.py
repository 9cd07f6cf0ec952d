"""What the audit says, read from its store as every reader would.

Pure but for :func:`read_verdicts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import select

from tallymark_audit.judge.states import GOOD, UNDECIDED, State
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.proof.drill.faults.kinds import TOPIC_FAULTS
from tallymark_audit.proof.drill.truth.expected import (
    CORRUPT,
    DUPLICATION,
    LOSS,
    SKEWED,
    UNCLAIMED,
    Cell,
    Finding,
)
from tallymark_audit.store import open_store
from tallymark_audit.store.counted import facts
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import RowLike
from tallymark_audit.store.schema.tables import incidents, progress, verdict_history

NAMELESS: Final = -1
"""Instead of a sequence: a further copy that the verdict counts and does not name."""
_MANY: Final = 1_000_000
_QUIET: Final = frozenset(str(state) for state in (*GOOD, *UNDECIDED))
GREEN: Final = frozenset(str(state) for state in GOOD)
ALARMS: Final = tuple(str(state) for state in State if str(state) not in _QUIET)


def read_verdicts(store: str, states: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The verdict rows that hold, of these states (all, if none is named)."""
    with open_store(store) as opened, opened.read() as connection:
        return queries.windows(connection, states=tuple(states), limit=_MANY)


def read_alarms(store: str) -> list[str]:
    """Every alarm there ever was, also one that was taken back: edge, topic, window, state."""
    columns = [
        verdict_history.c[name] for name in ("edge", "topic", "window", "state", "judged_at")
    ]
    query = select(*columns).where(verdict_history.c.state.in_(ALARMS))
    with open_store(store) as opened, opened.read() as connection:
        rows = connection.execute(query.order_by(verdict_history.c.judged_at)).all()
    return [f"{row.edge} {row.topic} {row.window} {row.state}" for row in rows]


def read_reporters(store: str, instance: str, server: str = "") -> list[str]:
    """The reporters of a run that have neither closed nor been retired: by its instance, or by its
    server."""
    with open_store(store) as opened, opened.read() as connection:
        rows = queries.all_reporters(connection, live_only=True)
    return sorted(
        {
            row["reporter"]
            for row in rows
            if row["instance"] == instance or (server and row["server"] == server)
        }
    )


def read_incidents(store: str) -> list[dict[str, Any]]:
    """Every incident there was."""
    with open_store(store) as opened, opened.read() as connection:
        return [dict(row) for row in connection.execute(select(incidents)).mappings()]


def read_skewed(store: str) -> set[Finding]:
    """How many records of each cell its producer reported as skewed."""
    with open_store(store) as opened, opened.read() as connection:
        cells = [
            (cluster, claim.key, claim.skewed)
            for (cluster, topic), windows in facts.kept_windows(connection).items()
            for by_cell in facts.claimed(connection, cluster, topic, windows).values()
            for claim in by_cell.values()
        ]
    return {
        Finding(cell_of(f"producer-to-{cluster}", key._asdict()), SKEWED, skewed)
        for cluster, key, skewed in cells
        if skewed
    }


def counted_to(store: str, cluster: str, topic: str) -> dict[int, int]:
    """Partition -> how far the collector of the cluster has read it."""
    query = select(progress.c.partition, progress.c.next_offset)
    query = query.where(progress.c.cluster == cluster, progress.c.topic == topic)
    with open_store(store) as opened, opened.read() as connection:
        return {row.partition: row.next_offset for row in connection.execute(query)}


def undecided(rows: Iterable[Mapping[str, Any]], until: int, window_ms: int) -> list[str]:
    """What is not decided of the windows that end by ``until`` (ms): edge, topic, window, state. A
    cell that waits counts also where its window is in alarm for another one."""
    waiting = {str(state) for state in UNDECIDED}
    found: list[str] = []
    for row in rows:
        if row["window"] + window_ms > until:
            continue
        states = [row["state"], *(cell["state"] for cell in row["cells"])]
        open_states = [state for state in states if state in waiting]
        if open_states:
            found.append(f"{row['edge']} {row['topic']} {row['window']} {open_states[0]}")
    return found


def unnamed(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Losses on mirrors' hops of which is not said yet where the messages still are: edge, topic,
    window."""
    return [
        f"{row['edge']} {row['topic']} {row['window']}"
        for row in rows
        if any(
            cell["missing"]
            and not cell["located"]
            and row["topic"] not in TOPIC_FAULTS  # what was deleted is nowhere
            and cell["state"] not in _QUIET
            and Finding(cell_of(row["edge"], cell), LOSS, 0).mirrored
            for cell in row["cells"]
        )
    ]


def items_of(rows: Iterable[Mapping[str, Any]]) -> set[Finding]:
    """Everything that the verdicts call wrong, message by message."""
    return {item for row in rows for cell in row["cells"] for item in _of_cell(row["edge"], cell)}


def located(rows: Iterable[Mapping[str, Any]]) -> set[Finding]:
    """The missing messages of which the verdicts say where they still are."""
    return {
        Finding(cell_of(row["edge"], cell), LOSS, sequence)
        for row in rows
        for cell in row["cells"]
        for place in cell["located"]
        for sequence in range(place["first_sequence"], place["last_sequence"] + 1)
    }


def cell_of(edge: str, raw: RowLike) -> Cell:
    """The cell that one of ``verdicts.cells``, or a key of a claim, is about."""
    return Cell(edge, raw["topic"], raw["window"], raw["partition"], raw["server"], raw["instance"])


def _of_cell(edge: str, raw: Mapping[str, Any]) -> Iterator[Finding]:
    if raw["state"] in _QUIET:
        return
    cell = cell_of(edge, raw)
    for sequence in _each(raw["missing"]):
        yield Finding(cell, LOSS, sequence)
    for sequence in _each(raw["unclaimed"]):
        yield Finding(cell, UNCLAIMED, sequence)
    copies: Counter[int] = Counter()
    for level in raw["repeated"]:
        for sequence in _each(level):
            copies[sequence] += 1
            yield Finding(cell, DUPLICATION, sequence, copies[sequence])
    for number in range(copies.total(), raw["duplicates"]):
        yield Finding(cell, DUPLICATION, NAMELESS, number)
    for block in raw.get("corrupt", ()):
        yield Finding(cell, CORRUPT, block)


def _each(flat: list[int]) -> Iterator[int]:
    for first, last in RangeSet.from_list(flat):
        yield from range(first, last + 1)
