"""The transaction of a writer: it has the lock of all writers from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.pool import PoolProxiedConnection

from tallymark_schema_registry.store.changes import (
    Change,
    NewText,
    OutcomeUnknown,
    StoreFailed,
    change_of,
)
from tallymark_schema_registry.store.rows import rows_of
from tallymark_schema_registry.store.statements import Statements, write

PAGE: Final = 1_000
"""Changes that are read at a time."""


class SqlTurn:
    """See :class:`~.changes.Turn`. ``failing`` makes StoreFailed of what the database raises."""

    def __init__(
        self,
        connection: PoolProxiedConnection,
        sql: Statements,
        failing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.newer: Sequence[Change] = ()
        self._connection = connection
        self._sql = sql
        self._failing = failing
        self._cursor: DBAPICursor

    def begin(self, after: int) -> None:
        """Wait for the lock, and read what came after ``after``."""
        self._cursor = self._connection.cursor()
        self._cursor.execute(self._sql.begin_writing)
        self._cursor.execute(self._sql.number)
        last = self._cursor.fetchall()[0][0]
        if last < after:
            raise StoreFailed(
                f"the registry's store ends at change {last}, and change {after} was there: an "
                "older copy has taken its place; restart what serves it"
            )
        newer = list[Change]()
        while after + len(newer) < last:
            newer += read_changes(self._cursor, self._sql, after + len(newer), PAGE)
        self.newer = newer

    def append(self, changes: Sequence[Change], texts: Sequence[NewText] = ()) -> None:
        """Write and commit, and end the turn whatever happens."""
        broken = True
        try:
            with self._failing():
                write(self._cursor, self._sql, rows_of(changes, texts))
            try:
                with self._failing():
                    self.commit()
            except StoreFailed as error:
                raise OutcomeUnknown(str(error)) from error
            broken = False
        finally:
            self.end(broken)

    def commit(self) -> None:
        """What was written is there afterwards, for all, also after the power has failed."""
        self._connection.commit()

    def give_up(self) -> None:
        """Nothing is written."""
        self.end(broken=False)

    def end(self, broken: bool) -> None:
        """What was not committed is rolled back. A connection that is ``broken`` is closed, since
        its state is unknown."""
        with self._failing():
            if broken:
                self._connection.invalidate()
            self._connection.close()


def read_changes(cursor: DBAPICursor, sql: Statements, number: int, limit: int) -> list[Change]:
    """The changes after ``number``, at most ``limit``. StoreFailed where one is missing."""
    cursor.execute(sql.since, (number, limit))
    found = [change_of(row) for row in cursor.fetchall()]
    if found and found[-1].number != number + len(found):
        raise StoreFailed(f"changes after number {number} are missing in the registry's store")
    return found


def reason(error: BaseException) -> str:
    """The first line of what the database said, and what to do about a disk without room."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    said = lines[0] if lines else type(error).__name__
    return f"{said}; make room on the disk of the store" if "is full" in said else said
