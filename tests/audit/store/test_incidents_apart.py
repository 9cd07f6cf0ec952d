"""What incidents of one topic cost does not grow with those of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from tallymark_audit.events.events import Gap
from tallymark_audit.model.cells import Edge
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import carried
from tallymark_audit.store.counted.incidents import Incident, add_gap, fold_incident

NOW = 10**12
EDGE = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
STEPS = 10
"""Steps of SQLite's machine that are counted as one."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as made:
        yield made


class RolledBackError(Exception):
    """Ends a transaction that is not to be kept."""


def steps_of(store: Store, work: Callable[[Connection], object]) -> int:
    """How many steps SQLite takes for the work, in :data:`STEPS`; nothing is kept of it."""
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    with suppress(RolledBackError), store.write() as connection:
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(count, STEPS)
        try:
            work(connection)
        finally:
            raw.set_progress_handler(None, STEPS)
        raise RolledBackError
    return steps[0]


def fold(connection: Connection) -> None:
    fold_incident(connection, "aggregate", Incident("bad-event", "why", "honest", 0), NOW)


def gap(connection: Connection) -> None:
    add_gap(connection, "aggregate", "mirror-dc1-to-aggregate", Gap("honest", 0, 3, 4, "aborted"))


def gap_of_damage(connection: Connection) -> None:
    add_gap(connection, "aggregate", "mirror-dc1-to-aggregate", Gap("honest", 0, 3, 4, "corrupt"))


def judge(connection: Connection) -> None:
    carried.gaps_of(connection, EDGE, "honest")
    carried.stops_of(connection, EDGE, "honest")


@pytest.mark.soak_cases("gap", "gap_of_damage", "fold")
@pytest.mark.parametrize("work", [fold, gap, gap_of_damage, judge])
def test_rows_of_others_are_not_walked_through(
    store: Store, work: Callable[[Connection], object]
) -> None:
    """Mirrors that a stranger made up told of gaps in his topic, and each was a row: ten thousand
    after four minutes. Every question about incidents walked through all of them, up to four for
    each odd record and two for each window of a mirror's edge, in the transaction that the other
    collectors wait for: reports of an honest topic were taken in later and later."""
    alone = steps_of(store, work)
    with store.write() as connection:
        for n in range(2_000):
            told = Gap("strangers", n % 16, n, n + 1, "aborted", at=NOW)
            add_gap(connection, "aggregate", f"mirror-{n}", told)
    assert steps_of(store, work) <= alone + 10
