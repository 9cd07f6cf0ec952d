"""Reads and writes of the registry's tables. No Avro in here: schemas are texts with an MD5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tallymark.sql import READ_ONLY
from tallymark_schema_registry.store.tables import DEFAULT_CONTEXT, levels, schemas, versions


class Conflict(Exception):
    """Another writer was first."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of a subject."""

    subject: str
    version: int
    schema_id: int
    text: str


class Store:
    """All of one context. Every method is one transaction, unless it is given a connection."""

    def __init__(self, engine: Engine, context: str = DEFAULT_CONTEXT) -> None:
        self._engine = engine
        self._reader = engine.execution_options(**{READ_ONLY: True})
        self._context = context

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One snapshot for several reads."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; raises :class:`Conflict` where a unique constraint held.

        Writers queue, since what one reads decides what it writes: on SQLite by BEGIN IMMEDIATE,
        on PostgreSQL, where two would both find a subject without versions, by a lock of the
        context that lasts as long as the transaction."""
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name == "postgresql":
                    mine = func.hashtext(f"tallymark schema registry {self._context}")
                    connection.execute(select(func.pg_advisory_xact_lock(mine)))
                yield connection
        except IntegrityError as error:
            raise Conflict from error

    def ping(self) -> None:
        with self.reading() as connection:
            connection.execute(select(1))

    def text(self, schema_id: int) -> str | None:
        query = select(schemas.c.text).where(
            schemas.c.context == self._context, schemas.c.id == schema_id
        )
        with self.reading() as connection:
            return connection.execute(query).scalar_one_or_none()

    def subjects(self, prefix: str) -> list[str]:
        query = (
            select(versions.c.subject)
            .distinct()
            .where(
                versions.c.context == self._context,
                versions.c.deleted.is_(False),
                versions.c.subject.startswith(prefix, autoescape=True),
            )
        )
        with self.reading() as connection:
            return sorted(connection.execute(query).scalars())

    def uses(self, schema_id: int) -> list[tuple[str, int]]:
        """Every (subject, version) of a schema."""
        query = select(versions.c.subject, versions.c.version).where(
            versions.c.context == self._context,
            versions.c.schema_id == schema_id,
            versions.c.deleted.is_(False),
        )
        with self.reading() as connection:
            return sorted((row.subject, row.version) for row in connection.execute(query))

    def versions(self, connection: Connection, subject: str) -> list[int]:
        """Ascending; empty if there is no such subject."""
        query = (
            select(versions.c.version)
            .where(self._of(subject), versions.c.deleted.is_(False))
            .order_by(versions.c.version)
        )
        return list(connection.execute(query).scalars())

    def version(self, connection: Connection, subject: str, version: int) -> Stored | None:
        return self._stored(connection, subject, versions.c.version == version)

    def with_md5(self, connection: Connection, subject: str, md5: str) -> Stored | None:
        """The newest version of the subject that has this content."""
        return self._stored(connection, subject, schemas.c.md5 == md5)

    def id_of(self, connection: Connection, md5: str) -> int | None:
        query = select(schemas.c.id).where(schemas.c.context == self._context, schemas.c.md5 == md5)
        return connection.execute(query).scalar_one_or_none()

    def add_schema(self, connection: Connection, md5: str, text: str) -> int:
        """Take the next id. If two transactions take the same one, the primary key refuses the
        second."""
        query = select(func.max(schemas.c.id)).where(schemas.c.context == self._context)
        schema_id = (connection.execute(query).scalar_one_or_none() or 0) + 1
        row = {"context": self._context, "id": schema_id, "md5": md5, "text": text}
        connection.execute(insert(schemas).values(row))
        return schema_id

    def add_version(self, connection: Connection, subject: str, schema_id: int, now_ms: int) -> int:
        """The next version: numbers are never used twice, so deleted ones count."""
        query = select(func.max(versions.c.version)).where(self._of(subject))
        version = (connection.execute(query).scalar_one_or_none() or 0) + 1
        row = {
            "context": self._context,
            "subject": subject,
            "version": version,
            "schema_id": schema_id,
            "deleted": False,
            "registered_ms": now_ms,
        }
        connection.execute(insert(versions).values(row))
        return version

    def level(self, connection: Connection, subject: str) -> str | None:
        """The level set for exactly this subject; "" is the global one."""
        query = select(levels.c.level).where(
            levels.c.context == self._context, levels.c.subject == subject
        )
        return connection.execute(query).scalar_one_or_none()

    def set_level(self, connection: Connection, subject: str, level: str) -> None:
        there = (levels.c.context == self._context) & (levels.c.subject == subject)
        if connection.execute(update(levels).where(there).values(level=level)).rowcount == 0:
            row = {"context": self._context, "subject": subject, "level": level}
            connection.execute(insert(levels).values(row))

    def delete_level(self, connection: Connection, subject: str) -> None:
        there = (levels.c.context == self._context) & (levels.c.subject == subject)
        connection.execute(delete(levels).where(there))

    def _of(self, subject: str) -> ColumnElement[bool]:
        return (versions.c.context == self._context) & (versions.c.subject == subject)

    def _stored(
        self, connection: Connection, subject: str, condition: ColumnElement[bool]
    ) -> Stored | None:
        query = (
            select(versions.c.version, versions.c.schema_id, schemas.c.text)
            .join(
                schemas,
                (schemas.c.context == versions.c.context) & (schemas.c.id == versions.c.schema_id),
            )
            .where(self._of(subject), versions.c.deleted.is_(False), condition)
            .order_by(versions.c.version.desc())
            .limit(1)
        )
        row = connection.execute(query).one_or_none()
        return None if row is None else Stored(subject, row.version, row.schema_id, row.text)
