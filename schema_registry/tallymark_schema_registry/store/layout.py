"""The tables.

::

    changes   number -> record          what happened, in order; the primary key is the order
    contexts, schemas, subjects,        what the changes amount to, so that a start
    versions, levels, modes             need not read every change

``changes.number`` counts without gaps. A writer that knows all up to n inserts n + 1: of two
processes that do so at once the second one fails, and decides again with what the first one did.
The other constraints hold by the decisions of :mod:`tallymark_schema_registry.decisions`; here they
are kept should those be wrong.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

NEWEST: Final = 2
"""The version of these tables. Version 1 had ``schemas``, ``versions`` and ``levels`` only."""

metadata = MetaData()

store_version = Table(
    "registry_store",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

changes = Table(
    "changes",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("record", Text, nullable=False),
)

contexts = Table(
    "contexts",
    metadata,
    Column("context", String(1000), primary_key=True),
    Column("last_id", Integer, nullable=False),
    Column("listed", Boolean, nullable=False),
)

schemas = Table(
    "schemas",
    metadata,
    Column("context", String(1000), primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("md5", String(32), nullable=False),
    # 0, or the id where an import brought a content that has an id already under a second one.
    Column("twin", Integer, nullable=False),
    # Version 1 did not have it. A process of that version gives it no value, so it cannot write.
    Column("kind", String(32), nullable=False),
    # JSON: [[name, subject, version], ...]
    Column("refers_to", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("rule_set", Text, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("context", "md5", "twin", name="schemas_identity"),
)

subjects = Table(
    "subjects",
    metadata,
    Column("context", String(1000), primary_key=True),
    Column("subject", String(1000), primary_key=True),
    # The highest number ever used.
    Column("last_version", Integer, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("context", String(1000), primary_key=True),
    Column("subject", String(1000), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("schema_id", Integer, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
    Column("registered_by", Text, nullable=False),
)

# The name is that of version 1, whose processes look for a column "level" and fail.
configs = Table(
    "levels",
    metadata,
    Column("context", String(1000), primary_key=True),
    # "" is the context itself.
    Column("subject", String(1000), primary_key=True),
    # JSON, as in the record.
    Column("config", Text, nullable=False),
)

modes = Table(
    "modes",
    metadata,
    Column("context", String(1000), primary_key=True),
    Column("subject", String(1000), primary_key=True),
    Column("mode", String(32), nullable=False),
)
