"""The store in SQLite or PostgreSQL: every transaction there is.

Statements go to the driver as they are: a transaction through SQLAlchemy's own connections costs
twice as much. The pool, and what is set on a new connection, are SQLAlchemy's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.store.changes import (
    Behind,
    Change,
    NewText,
    StoreFailed,
)
from tallymark_schema_registry.store.loading import load_catalog
from tallymark_schema_registry.store.same_file import SameFile
from tallymark_schema_registry.store.statements import Statements
from tallymark_schema_registry.store.turn import PAGE, SqlTurn, read_changes, reason
from tallymark_schema_registry.store.watch import Watch

_IDS: Final = 500
"""Ids that one query asks for; some builds of SQLite take at most 999 values."""


class SqlStore:
    """Threads may share it. Every method is one transaction, and raises StoreFailed where the
    database cannot be asked."""

    def __init__(self, engine: Engine, file: SameFile | None = None) -> None:
        self.is_watched_cheaply = engine.dialect.name == "sqlite"
        """Whether :meth:`unchanged` costs microseconds and never waits."""
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

        Raises :class:`Behind` where ``after`` is not the store's last number, OutcomeUnknown where
        the database went away while it committed, StoreFailed where nothing was written."""
        turn = self._begin(after)
        if turn.newer:
            raise Behind(turn)
        turn.append(changes, texts)

    def fence(self, after: int) -> Sequence[Change]:
        """The changes after ``after``. What any process had begun to write before the call is among
        them, or never will be written."""
        turn = self._begin(after)
        turn.give_up()
        return turn.newer

    def since(self, number: int, limit: int = PAGE) -> list[Change]:
        """The changes after ``number``, in order, without gaps; at most ``limit``."""
        with self._cursor() as cursor:
            return read_changes(cursor, self._sql, number, limit)

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
        with self._failing():
            return self._watch.last_number() == number

    def _begin(self, after: int) -> SqlTurn:
        if self._file:
            self._file.check()
        with self._failing():
            connection = self._engine.raw_connection()
        turn = SqlTurn(connection, self._sql, self._failing)
        try:
            with self._failing():
                turn.begin(after)
        except BaseException:
            turn.end(broken=True)
            raise
        return turn

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except self._ours:
            raise
        except self._errors as error:
            raise StoreFailed(reason(error)) from error

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """What it opens is rolled back. The connection is closed after an error, since its state is
        unknown."""
        with self._failing():
            connection = self._engine.raw_connection()
            try:
                yield connection.cursor()
            except BaseException:
                connection.invalidate()
                raise
            finally:
                connection.close()
