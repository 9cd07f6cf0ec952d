"""The tables.

Two unique constraints carry the consistency of the whole registry, on any number of nodes::

    schemas   (context, id)  (context, md5)        a text has one id, an id one text
    versions  (context, subject, version)          two writers cannot both be "the next one"

A writer reads the newest version, checks compatibility against it and inserts the next number. If
another one came first, the insert fails and it starts again, now against the newer version.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

DEFAULT_CONTEXT: Final = "."
"""Ids are per context; this registry serves the default one."""

metadata = MetaData()

schemas = Table(
    "schemas",
    metadata,
    Column("context", String(255), primary_key=True),
    # SQLite would count an integer primary key by itself; ids are counted per context.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("md5", String(32), nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("context", "md5", name="schemas_content"),
)

versions = Table(
    "versions",
    metadata,
    Column("context", String(255), primary_key=True),
    Column("subject", String(1000), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("schema_id", Integer, nullable=False),
    Column("deleted", Boolean, nullable=False, default=False),
    Column("registered_ms", BigInteger, nullable=False),
    Index("versions_of_schema", "context", "schema_id"),
)

levels = Table(
    "levels",
    metadata,
    Column("context", String(255), primary_key=True),
    # "" is the level of all subjects that have none of their own.
    Column("subject", String(1000), primary_key=True),
    Column("level", String(32), nullable=False),
)
