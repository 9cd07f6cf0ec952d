"""The store in SQLite or PostgreSQL: every transaction there is.

Statements go to the driver as they are: a transaction through SQLAlchemy's own connections costs
twice as much. The pool, and what is set on a new connection, are SQLAlchemy's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import SQLAlchemyError

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.store.changes import (
    Behind,
    Change,
    NewText,
    OutcomeUnknown,
    StoreFailed,
    change_of,
)
from tallymark_schema_registry.store.loading import load_catalog
from tallymark_schema_registry.store.rows import rows_of
from tallymark_schema_registry.store.same_file import SameFile
from tallymark_schema_registry.store.statements import Statements, write
from tallymark_schema_registry.store.watch import Watch

PAGE: Final = 1_000
"""Changes that are read at a time."""
_IDS: Final = 500
"""Ids that one query asks for; some builds of SQLite take at most 999 values."""


class SqlStore:
    """Threads may share it. Every method is one transaction, and raises StoreFailed where the
    database cannot be asked."""

    def __init__(self, engine: Engine, file: SameFile | None = None) -> None:
        self.is_watched_cheaply = engine.dialect.name == "sqlite"
        """Whether :meth:`unchanged` costs microseconds and waits for nobody."""
        self._engine = engine
        self._sql = Statements(engine.dialect.name)
        self._file = file
        self._watch = Watch(engine, self._sql)
        dbapi = engine.dialect.loaded_dbapi
        self._errors: tuple[type[Exception], ...] = (SQLAlchemyError, dbapi.Error, OSError)
        # Values that the database does not take are not its failure but ours.
        self._ours: tuple[type[Exception], ...] = (dbapi.DataError, dbapi.ProgrammingError)

    def close(self) -> None:
        """Give the connections back."""
        self._watch.close()
        self._engine.dispose()

    def load(self) -> Catalog:
        """All but the texts."""
        with self._cursor() as cursor:
            cursor.execute(self._sql.begin_snapshot)
            return load_catalog(cursor)

    def append(self, after: int, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """Write the changes, whose numbers are those after ``after``; all of them or none.

        Without changes it is a fence: what any process had begun to write is written when it
        returns, or never will be.

        Raises :class:`Behind` where ``after`` is not the store's last number, OutcomeUnknown where
        the database went away while it committed, StoreFailed where nothing was written."""
        rows = rows_of(changes, texts)
        if self._file:
            self._file.check()
        with self._cursor() as cursor:
            cursor.execute(self._sql.begin_writing)
            self._check_number(cursor, after)
            if not changes:
                return
            write(cursor, self._sql, rows)
            try:
                self._commit(cursor)
            except self._errors as error:
                raise OutcomeUnknown(reason(error)) from error

    def _commit(self, cursor: Any) -> None:
        cursor.connection.commit()

    def since(self, number: int, limit: int = PAGE) -> list[Change]:
        """The changes after ``number``, in order, without gaps; at most ``limit``."""
        with self._cursor() as cursor:
            return self._since(cursor, number, limit)

    def texts(self, context: str, ids: Sequence[int]) -> dict[int, str]:
        """The texts of ids of one context, without those that are not there."""
        found = dict[int, str]()
        with self._cursor() as cursor:
            for start in range(0, len(ids), _IDS):
                some = ids[start : start + _IDS]
                cursor.execute(self._sql.texts(len(some)), (context, *some))
                found.update(cursor.fetchall())
        return found

    def unchanged(self, number: int) -> bool:
        """Whether ``number`` is that of the store's last change."""
        try:
            return self._watch.last_number() == number
        except self._errors as error:
            raise StoreFailed(reason(error)) from error

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """What was not committed is rolled back. The connection is closed after an error, since
        nobody knows what state it is in."""
        try:
            connection = self._engine.raw_connection()
            try:
                yield connection.cursor()
            except Behind:
                raise
            except BaseException:
                connection.invalidate()
                raise
            finally:
                connection.close()
        except self._ours:
            raise
        except self._errors as error:
            raise StoreFailed(reason(error)) from error

    def _check_number(self, cursor: DBAPICursor, after: int) -> None:
        cursor.execute(self._sql.number)
        last = cursor.fetchall()[0][0]
        if last > after:
            raise Behind(self._since(cursor, after, PAGE))
        if last < after:
            raise StoreFailed(
                f"the registry's store ends at change {last}, and change {after} was there: an "
                "older copy has taken its place; restart what serves it"
            )

    def _since(self, cursor: DBAPICursor, number: int, limit: int) -> list[Change]:
        cursor.execute(self._sql.since, (number, limit))
        found = [change_of(row) for row in cursor.fetchall()]
        if found and found[-1].number != number + len(found):
            raise StoreFailed(f"changes after number {number} are missing in the registry's store")
        return found


def reason(error: BaseException) -> str:
    """The first line of what the database said."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return lines[0] if lines else type(error).__name__
