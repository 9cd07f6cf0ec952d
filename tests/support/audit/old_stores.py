"""Audit stores as older programs left them: dumps of SQLite, loaded into it or into PostgreSQL with
the types that the same program gave its columns there."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, create_engine

DUMPS = Path(__file__).parent
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\);", re.DOTALL)


def load_old_store(address: str, version: int) -> None:
    """Make the store at ``address``, which is empty, what ``store_of_version_N.sql`` has."""
    dump = DUMPS.joinpath(f"store_of_version_{version}.sql").read_text(encoding="utf-8")
    if address.startswith("sqlite:///"):
        path = Path(address.removeprefix("sqlite:///"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(dump)
        return
    engine = create_engine(address)
    with engine.begin() as connection:
        _load_into_postgresql(connection, dump)
    engine.dispose()


def _load_into_postgresql(connection: Connection, dump: str) -> None:
    for statement in _postgresqls(dump).split(";\n"):
        if statement.lstrip().startswith(("CREATE", "INSERT")):
            connection.exec_driver_sql(statement)
    for name, columns in _TABLE.findall(dump):
        for column in re.findall(r"\n\t(\w+) BOOLEAN", columns):
            changed = f"TYPE BOOLEAN USING {column} <> 0"
            connection.exec_driver_sql(f"ALTER TABLE {name} ALTER COLUMN {column} {changed}")
        if "\n\tid INTEGER" in columns:
            last = f"(SELECT coalesce(max(id), 0) + 1 FROM {name})"
            connection.exec_driver_sql(f"SELECT setval('{name}_id_seq', {last}, false)")


def _postgresqls(dump: str) -> str:
    """The dump as PostgreSQL understands it. Booleans are numbers yet, as in SQLite's rows; a
    window is a word of its own there."""
    dump = re.sub(r"(?m)^--.*\n", "", dump)
    dump = re.sub(r"\bwindow\b(?=[ ,)])", '"window"', dump)
    dump = dump.replace(" BOOLEAN ", " SMALLINT ").replace(" BLOB ", " BYTEA ")
    dump = re.sub(r"\bX'([0-9A-F]*)'", r"'\\x\1'", dump)
    return dump.replace("\tid INTEGER NOT NULL", "\tid BIGSERIAL NOT NULL")
