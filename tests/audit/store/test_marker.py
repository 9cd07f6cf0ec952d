"""What a live page asks each second: has anything changed?"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged import alerts as stored_alerts
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading.marker import StoreVersion, store_marker
from tallymark_audit.store.schema.tables import (
    alerts,
    collectors,
    incidents,
    progress,
    repairs,
    reporters,
    runs,
)

NOON = 1_767_268_800_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/audit.db") as opened:
        yield opened


def judged(connection: Connection) -> None:
    verdict = Verdict("dc1-to-lake", "clicks", NOON, State.LOSS, claimed=3, observed=2, missing=1)
    record_verdicts(connection, [verdict], COLLECTOR, NOON)


def reporting(connection: Connection) -> None:
    row = {"cluster": "dc1", "reporter": "r", "kind": "producer", "tier": "producer"}
    connection.execute(reporters.insert().values(**row))


def told(connection: Connection) -> None:
    row = {"fingerprint": "f", "rule": "loss", "status": "firing", "labels": {}, "annotations": {}}
    connection.execute(alerts.insert().values(**row, starts_at=5))


SEEN: dict[str, Callable[[Connection], object]] = {
    "a verdict": judged,
    "a reporter": reporting,
    "an alert": told,
    "a pause": lambda connection: stored_alerts.pause(connection, NOON),
    "a log event": lambda connection: connection.execute(
        incidents.insert().values(cluster="dc1", kind="truncated", at=1)
    ),
    "a run": lambda connection: connection.execute(
        runs.insert().values(job="load", started_at=1, outcome="complete")
    ),
    "a repair": lambda connection: connection.execute(
        repairs.insert().values(at=1, edge="dc1-to-lake", topic="clicks")
    ),
}


@pytest.mark.parametrize("what", SEEN)
def test_what_a_page_shows_changes_the_marker(store: Store, what: str) -> None:
    with store.read() as connection:
        before = store_marker(connection)
    with store.write() as connection:
        SEEN[what](connection)
    with store.read() as connection:
        assert store_marker(connection) != before


def test_what_goes_on_all_the_time_does_not(store: Store) -> None:
    """Every page was rendered, and sent, again and again because somebody had been heard."""
    with store.write() as connection:
        reporting(connection)
        connection.execute(collectors.insert().values(cluster="dc1", generation=1, owner="c"))
        connection.execute(progress.insert().values(cluster="dc1", topic="clicks", partition=0))
    with store.read() as connection:
        before = store_marker(connection)
    with store.write() as connection:
        connection.execute(reporters.update().values(last_heard=NOON, complete_through=NOON))
        connection.execute(collectors.update().values(heartbeat=NOON))
        connection.execute(progress.update().values(next_offset=9))
    with store.read() as connection:
        assert store_marker(connection) == before


def test_every_commit_changes_the_version(store: Store) -> None:
    version = StoreVersion(store)
    first = version.read()
    with store.read() as connection:
        store_marker(connection)
    assert version.read() == first
    with store.write() as connection:
        reporting(connection)
    assert version.read() != first
    version.close()
    version.close()


def test_a_version_of_another_connection_is_never_the_same(store: Store) -> None:
    version = StoreVersion(store)
    seen = [version.read()]
    version.close()
    seen.append(version.read())
    version.close()
    assert len(set(seen)) == 2


def test_a_store_that_cannot_be_asked_is_never_unchanged(store: Store) -> None:
    version = StoreVersion(store)
    seen = {version.read()}
    for _ in range(3):
        own = vars(version)["_own"]
        assert isinstance(own, sqlite3.Connection)
        own.close()  # as after a fault of the disk
        seen |= {version.read(), version.read()}
    assert len(seen) == 7
    version.close()
