"""What was wrong stays known: the cells of a verdict, when it gets better.

A verdict that is good has no cells. Without a copy, which messages had been lost, and at which
offsets they were, would be gone with their repair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, and_, or_, select

from tallymark_audit.judge.states import DAMAGE, State, state_of
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.portions import first_of
from tallymark_audit.store.schema.rows import Row, is_cells
from tallymark_audit.store.schema.tables import worst_cells
from tallymark_audit.store.schema.upsert import upsert

KEPT: Final = DAMAGE | {State.MIXED, State.UNCLAIMED}
"""States in which messages are wrong; of UNKNOWN nothing is known that could be kept."""
MOST_CELLS: Final = 200
MOST_BYTES: Final = 1 << 17
Key = tuple[str, str, int]


def keep_worst_cells(
    connection: Connection, changed: Iterable[tuple[Row | None, Row]], now_ms: int
) -> None:
    """Keep what verdicts said that are better now. ``changed``: rows of ``verdicts``, as they were
    and as they are. What was kept before stays if more was wrong then."""
    better = {
        _key(before): before
        for before, after in changed
        if before is not None and _named(before) and _weight(after) < _weight(before)
    }
    if not better:
        return
    known = _kept(connection, list(better))
    upsert(
        connection,
        worst_cells,
        [
            {
                **dict(zip(("edge", "topic", "window"), key, strict=True)),
                "state": row["state"],
                "until": now_ms,
                "cells": first_of(row["cells"], MOST_CELLS, MOST_BYTES)[0],
            }
            for key, row in better.items()
            if key not in known or _worth(row["cells"]) > _worth(known[key])
        ],
    )


def _key(row: Row) -> Key:
    return row["edge"], row["topic"], row["window"]


def _named(row: Row) -> bool:
    return state_of(row["state"]) in KEPT and is_cells(row["cells"]) and bool(row["cells"])


def _weight(row: Row) -> tuple[bool, int]:
    """How bad a verdict is: whether it is, and the messages that are wrong."""
    wrong: int = row["missing"] + row["duplicates"] + row["unclaimed"]
    return state_of(row["state"]) in KEPT, wrong


def _worth(cells: Iterable[Row]) -> tuple[int, int]:
    """The messages that the cells name as wrong, and of how many of them the place is known."""
    some = list(cells)
    names = ("missing_count", "duplicates", "unclaimed_count")
    wrong = sum(int(cell.get(name) or 0) for cell in some for name in names)
    return wrong, sum(bool(cell["located"]) for cell in some)


def _kept(connection: Connection, keys: list[Key]) -> dict[Key, list[Row]]:
    t = worst_cells.c
    found: dict[Key, list[Row]] = {}
    for some in chunks(keys):
        one_of = [
            and_(t.edge == edge, t.topic == topic, t.window == window)
            for edge, topic, window in some
        ]
        for row in connection.execute(select(worst_cells).where(or_(*one_of))).mappings():
            found[_key(dict(row))] = row["cells"] if is_cells(row["cells"]) else []
    return found
