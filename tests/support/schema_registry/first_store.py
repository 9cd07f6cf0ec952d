"""A store of the registry as its first version left it, and that version's statements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, text

from tallymark.sql import open_engine

TABLES: Final = (
    """CREATE TABLE levels (
        context VARCHAR(255) NOT NULL,
        subject VARCHAR(1000) NOT NULL,
        level VARCHAR(32) NOT NULL,
        PRIMARY KEY (context, subject)
    )""",
    """CREATE TABLE schemas (
        context VARCHAR(255) NOT NULL,
        id INTEGER NOT NULL,
        md5 VARCHAR(32) NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (context, id),
        CONSTRAINT schemas_content UNIQUE (context, md5)
    )""",
    """CREATE TABLE versions (
        context VARCHAR(255) NOT NULL,
        subject VARCHAR(1000) NOT NULL,
        version INTEGER NOT NULL,
        schema_id INTEGER NOT NULL,
        deleted BOOLEAN NOT NULL,
        registered_ms BIGINT NOT NULL,
        PRIMARY KEY (context, subject, version)
    )""",
    "CREATE INDEX versions_of_schema ON versions (context, schema_id)",
)
ADD_SCHEMA: Final = text(
    "INSERT INTO schemas (context, id, md5, text) VALUES ('.', :id, :md5, :text)"
)
ADD_VERSION: Final = text(
    "INSERT INTO versions (context, subject, version, schema_id, deleted, registered_ms) "
    "VALUES ('.', :subject, :version, :id, :deleted, :at_ms)"
)
READ_LEVEL: Final = text("SELECT level FROM levels WHERE context = '.' AND subject = :subject")
SET_LEVEL: Final = text(
    "UPDATE levels SET level = :level WHERE context = '.' AND subject = :subject"
)
ADD_LEVEL: Final = text(
    "INSERT INTO levels (context, subject, level) VALUES ('.', :subject, :level)"
)


def make_first_store(
    address: str,
    texts: Sequence[str],
    versions: Sequence[tuple[str, int, int, bool]],
    levels: Sequence[tuple[str, str]],
) -> None:
    """``texts`` get the ids from 1 on; ``versions``: subject, version, id, whether it is deleted;
    ``levels``: subject, level."""
    engine = open_engine(address, synchronous="FULL")
    with engine.begin() as connection:
        for table in TABLES:
            connection.exec_driver_sql(table)
        for number, schema in enumerate(texts, 1):
            add_schema(connection, number, schema)
        for subject, version, schema_id, deleted in versions:
            add_version(connection, subject, version, schema_id, deleted)
        for subject, level in levels:
            connection.execute(ADD_LEVEL, {"subject": subject, "level": level})
    engine.dispose()


def add_schema(connection: Connection, schema_id: int, schema: str) -> None:
    """As the first version inserts a schema."""
    md5 = hashlib.md5(schema.encode()).hexdigest()
    connection.execute(ADD_SCHEMA, {"id": schema_id, "md5": md5, "text": schema})


def add_version(
    connection: Connection, subject: str, version: int, schema_id: int, deleted: bool = False
) -> None:
    """As the first version inserts a version, at 1,000 ms and its number."""
    values = {"subject": subject, "version": version, "id": schema_id, "deleted": deleted}
    connection.execute(ADD_VERSION, {**values, "at_ms": 1_000 + version})
