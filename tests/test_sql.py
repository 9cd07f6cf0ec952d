"""How databases are opened: what several processes do at once, and what a transaction locks."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tallymark import sql
from tallymark.sql import READ_ONLY, open_engine


def test_the_switch_to_wal_waits_for_the_lock_of_another_process(tmp_path: Path) -> None:
    """Of 160 first openings of a registry's store by four processes, 4 ended with "database is
    locked": SQLite does not wait for the lock of this switch, whatever its time-out."""
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (n INTEGER)")
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.2, lambda: other.execute("COMMIT")).start()
    engine = open_engine(f"sqlite:///{path}", synchronous="NORMAL")
    with engine.connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
    engine.dispose()
    other.close()


def test_a_lock_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BUSY_TIMEOUT_S", 0.1)
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (n INTEGER)")
    other.execute("BEGIN EXCLUSIVE")
    engine = open_engine(f"sqlite:///{path}", synchronous="NORMAL")
    with pytest.raises(OperationalError, match="locked"), engine.connect():
        pass
    other.close()
    engine.dispose()


@pytest.mark.parametrize(("synchronous", "number"), [("NORMAL", 1), ("FULL", 2)])
def test_what_survives_a_power_failure_is_said_by_the_caller(
    tmp_path: Path, synchronous: str, number: int
) -> None:
    address = f"sqlite:///{tmp_path / 'folder' / 'new.db'}"
    engine = open_engine(address, synchronous=synchronous)  # type: ignore[arg-type]
    with engine.connect() as connection:
        assert connection.scalar(text("PRAGMA synchronous")) == number
    engine.dispose()
    assert (tmp_path / "folder" / "new.db").stat().st_mode & 0o077 == 0


def test_readers_go_on_beside_a_writer_and_writers_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "BUSY_TIMEOUT_S", 0.1)
    engine = open_engine(f"sqlite:///{tmp_path / 'new.db'}", synchronous="NORMAL")
    reader = engine.execution_options(**{READ_ONLY: True})
    with engine.begin() as writing:
        writing.execute(text("CREATE TABLE t (n INTEGER)"))
        with reader.begin() as reading:
            assert reading.execute(text("SELECT name FROM sqlite_master")).all() == []
        with pytest.raises(OperationalError, match="locked"), engine.begin():
            pass
    engine.dispose()


def test_a_file_that_is_moved_away_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    """An operator moved the store of an audit to another disk. Connections that were open went on
    with the moved file, new ones made an empty file in its place: half of the pages said "no such
    table", the other half showed an old state as that of now."""
    path, away = tmp_path / "new.db", tmp_path / "away.db"
    engine = open_engine(f"sqlite:///{path}", synchronous="NORMAL")
    with engine.begin() as writing:
        writing.execute(text("CREATE TABLE t (n INTEGER)"))
    path.rename(away)
    for _ in range(2):  # with the connection that was open, and with a new one
        with pytest.raises(OperationalError, match=r"new\.db is gone"), engine.connect():
            pass
    assert not path.exists()
    away.rename(path)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT n FROM t")).all() == []
    engine.dispose()


def test_a_file_that_is_put_in_its_place_is_opened(tmp_path: Path) -> None:
    """A backup was put back while the dashboards ran: they showed the old file until they were
    restarted."""
    path, backup = tmp_path / "new.db", tmp_path / "backup.db"
    for number, file in enumerate((path, backup)):
        made = sqlite3.connect(file)
        made.execute("CREATE TABLE t AS SELECT ? AS n", (number,)).close()
        made.commit()
        made.close()
    engine = open_engine(f"sqlite:///{path}", synchronous="NORMAL")
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT n FROM t")) == 0
    backup.replace(path)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT n FROM t")) == 1
    engine.dispose()


def test_who_only_publishes_loads_no_database() -> None:
    script = (
        "import sys, tallymark; from tallymark import Producer; print('sqlalchemy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
