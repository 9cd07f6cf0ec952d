"""A store of the version before gets its sums and incidents at its first start, whole or not at
all: whoever is killed meanwhile, however many start at once, and where the disk is full."""

from __future__ import annotations

import logging
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from old_stores import load_old_store
from sqlalchemy import Engine, create_engine, event, func, inspect, select

from tallymark.errors import UserError
from tallymark.sql import open_engine
from tallymark_audit.judge.verdicts import State
from tallymark_audit.store import Store, open_store, preparing
from tallymark_audit.store.counted.totals import HOUR
from tallymark_audit.store.judged import filling
from tallymark_audit.store.judged.effective import COLLECTOR, SPARK, effective_of
from tallymark_audit.store.judged.sums import EDGE
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.balance import added_by
from tallymark_audit.store.schema.summed_tables import SUMMED

W = 60_000
EDGES = ("producer-to-dc1", "dc1-to-agg")
TOPICS = ("a", "b", "c.d", "e_f")
OPENING = """
import os, signal, sys
from sqlalchemy import Engine, event
from tallymark_audit.store import open_store
from tallymark_audit.store.judged import filling

filling.AT_ONCE = 40

def end(_connection, _cursor, statement, *_):
    if sys.argv[2] and sys.argv[2] in statement:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute", end)
open_store(sys.argv[1]).close()
"""


def verdict_rows() -> list[dict[str, Any]]:
    chance = Random(8)
    return [
        {
            "edge": edge, "topic": topic, "window": window * W, "source": source,
            "state": str(chance.choice([State.COMPLETE] * 8 + [*State])), "revision": 0,
            "judged_at": 10_000_000 + chance.randrange(9), "claimed": 9, "observed": 7,
            "missing": chance.randrange(3), "duplicates": chance.randrange(2), "unclaimed": 0,
            "explained": chance.randrange(2), "reasons": [],
            "cells": [], "accepted_by": chance.choice(["", "", "ann"]),
        }
        for edge in EDGES for topic in TOPICS for window in (-2, -1, *range(28))
        for source in (COLLECTOR, SPARK)
        if source == COLLECTOR or chance.random() < 0.3
    ]  # fmt: skip


def old_store(address: str) -> list[dict[str, Any]]:
    """A store of version 7 with verdicts of all kinds."""
    load_old_store(address, 7)
    rows = verdict_rows()
    kept = tables.verdict_history.columns.keys()
    engine = open_engine(address, synchronous="NORMAL")
    with engine.begin() as connection:
        connection.execute(tables.verdicts.insert(), rows)
        past = [{name: row[name] for name in kept} for row in rows]
        connection.execute(tables.verdict_history.insert(), past)
    engine.dispose()
    return rows


def sums_of(rows: list[dict[str, Any]]) -> dict[str, dict[tuple[Any, ...], tuple[int, ...]]]:
    """What the tables of sums have to hold, from all rows."""
    windows: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(dict)
    for row in rows:
        windows[row["edge"], row["topic"], row["window"]][row["source"]] = row
    found: dict[str, dict[Any, list[int]]] = defaultdict(dict)
    for (edge, topic, window), sources in windows.items():
        held = effective_of(sources)
        assert held is not None
        added = [added_by(held)[name] for name in SUMMED]
        for table, key in (
            ("verdict_sums", (edge, topic, HOUR, window - window % HOUR)),
            ("verdict_sums", (edge, topic, HOUR // 6, window - window % (HOUR // 6))),
            ("edge_sums", (edge, window)),
            ("topic_sums", (edge, topic)),
            ("topic_sums", (edge, EDGE)),
        ):
            known = found[table].get(key, [0] * len(SUMMED))
            found[table][key] = [one + two for one, two in zip(known, added, strict=True)]
    return {name: {k: tuple(v) for k, v in some.items()} for name, some in found.items()}


def sums_in(store: Store) -> dict[str, dict[tuple[Any, ...], tuple[int, ...]]]:
    with store.read() as connection:
        return {
            table.name: {
                tuple(row[column.name] for column in table.primary_key.columns): tuple(
                    row[name] for name in SUMMED
                )
                for row in connection.execute(select(table)).mappings()
            }
            for table in (tables.verdict_sums, tables.edge_sums, tables.topic_sums)
        }


def incidents_in(store: Store) -> int:
    with store.read() as connection:
        count = select(func.count()).select_from(tables.incident_windows)
        return connection.scalar(count) or 0


def version_of(address: str) -> str:
    """And that nothing of a later version is left there."""
    engine = create_engine(address)
    with engine.connect() as connection:
        found = connection.scalar(select(tables.meta.c.value).where(tables.meta.c.key == "schema"))
        assert not inspect(connection).has_table("verdict_sums") or found != "7"
    engine.dispose()
    return str(found)


def test_the_sums_are_those_of_all_verdicts_in_portions(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Millions of verdicts were summed up by one statement, which said nothing for minutes."""
    rows = old_store(database)
    monkeypatch.setattr(filling, "AT_ONCE", 40)
    monkeypatch.setattr(preparing, "TELL_EVERY_S", 0)
    with caplog.at_level(logging.WARNING), open_store(database) as store:
        assert sums_in(store) == sums_of(rows)
        ill = {State.COMPLETE, State.EXPLAINED, State.OPEN, State.SETTLING}
        past = {(r["edge"], r["topic"], r["window"]) for r in rows if r["state"] not in ill}
        assert 0 < incidents_in(store) <= len(past)
    told = [record.message for record in caplog.records]
    assert any(f": verdicts summed up, 0 of {len(rows):,}" in one for one in told)
    assert any(": topics with incidents, " in one for one in told)
    assert "done after" in told[-1]
    assert "secret" not in "".join(told)


@pytest.mark.soak_cases("postgresql")
@pytest.mark.process
@pytest.mark.timeout(300)
def test_who_is_killed_leaves_the_store_as_it_was(database: str) -> None:
    rows = old_store(database)
    moments = ("CREATE TABLE", "INTO edge_sums", 'INTO "incident_windows"', "UPDATE meta")
    if database.startswith("sqlite"):
        moments = (*moments[:2], "INTO incident_windows", *moments[3:])
    for after in moments:
        command = [sys.executable, "-c", OPENING, database, after]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == -signal.SIGKILL, (after, ended)
        assert version_of(database) == "7"
    with open_store(database) as store:
        assert sums_in(store) == sums_of(rows)


@pytest.mark.soak_cases("postgresql")
@pytest.mark.process
@pytest.mark.timeout(120)
def test_of_several_that_start_at_once_one_does_it(database: str) -> None:
    rows = old_store(database)
    command = [sys.executable, "-c", OPENING, database, ""]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [one.communicate(timeout=90) for one in started]
    assert [one.returncode for one in started] == [0, 0, 0], ended
    with open_store(database) as store:
        assert sums_in(store) == sums_of(rows)


@contextmanager
def held(address: str) -> Iterator[None]:
    """Another process makes the tables."""
    engine = open_engine(address, synchronous="NORMAL")
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(preparing.PREPARING)))
        yield
    engine.dispose()


def test_the_others_wait_as_long_as_it_takes(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second process gave up after 15 s with "database is locked"; of large stores that was
    every second process."""
    old_store(database)
    monkeypatch.setattr("tallymark.sql.BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(preparing, "TELL_EVERY_S", 0.1)
    opened: list[Store] = []
    with caplog.at_level(logging.WARNING), held(database):
        thread = threading.Thread(target=lambda: opened.append(open_store(database)))
        thread.start()
        while not any("waiting for the process" in one.message for one in caplog.records):
            assert thread.is_alive()
            time.sleep(0.02)
        assert not opened
    thread.join(60)
    (store,) = opened
    assert incidents_in(store)
    store.close()


def test_a_store_that_is_up_to_date_is_opened_while_another_one_writes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command that only reads took the lock of the writers first."""
    open_store(database).close()
    monkeypatch.setattr("tallymark.sql.BUSY_TIMEOUT_S", 0.01)
    with held(database), open_store(database) as store:
        assert incidents_in(store) == 0


@pytest.mark.parametrize("pages", [0, 1, 5, 12])
def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path, pages: int) -> None:
    address = f"sqlite:///{tmp_path}/a.db"
    rows = old_store(address)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        (size,) = connection.execute("PRAGMA page_count").fetchone()

    def fill_up(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count={size + pages}").close()

    event.listen(Engine, "connect", fill_up)
    try:
        with pytest.raises(UserError, match="is full") as refused:
            open_store(address)
    finally:
        event.remove(Engine, "connect", fill_up)
    assert "make room" in refused.value.do
    assert version_of(address) == "7"
    with open_store(address) as store:
        assert sums_in(store) == sums_of(rows)
