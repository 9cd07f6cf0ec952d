"""A store that fails where a test wants it to: at the n-th statement or commit, before it had its
effect (the disk was full, the server refused) or after (the answer was lost).

    failing = FailingStore(store)
    for at in range(1, 200):
        failing.arm(at, after=False)       # the at-th call from now on fails, once
        try:
            work()                         # OperationalError, as a real store raises it
        except OperationalError:
            pass
        if not failing.disarm():           # it did not come so far: every place was tried
            break

Counted are all calls of any connection of the store, from any thread: each statement (an
executemany is one) and each COMMIT. BEGIN and ROLLBACK are not, since nothing is decided there.
A statement that fails "after" has had its effect within its transaction, which is rolled back like
any other. A COMMIT that fails "after" is done, and its caller does not know: the interesting case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from tallymark_audit.store import Store

COMMIT: Final = "COMMIT"


class StoreFailure(Exception):
    """The cause that the double gives its errors: what a driver would raise."""


class FailingStore:
    """Makes ``store`` fail when armed; unarmed, it only counts. It works on the store given, so
    whatever uses that store meets the failures."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[str] = []
        """The statements and commits since :meth:`arm`, as far as they were tried."""
        self._at = 0
        self._after = False
        self._lasting = False
        self._failed = False
        self._lock = threading.Lock()
        dialect: Any = store.engine.dialect
        self._commit: Callable[[Any], None] = dialect.do_commit
        dialect.do_commit = self._do_commit
        event.listen(store.engine, "before_cursor_execute", self._before)
        event.listen(store.engine, "after_cursor_execute", self._behind)

    def arm(self, at: int, *, after: bool = False, lasting: bool = False) -> None:
        """The ``at``-th call from now on fails (1 is the next), once, or with ``lasting`` it and
        all that follow, as a store that is gone; ``after`` it took effect or before."""
        with self._lock:
            self.calls = []
            self._at, self._after, self._lasting, self._failed = at, after, lasting, False

    def disarm(self) -> bool:
        """Nothing fails any more; whether something did."""
        with self._lock:
            self._at = 0
            return self._failed

    def release(self) -> None:
        """Give the store back as it was."""
        self.disarm()
        dialect: Any = self.store.engine.dialect
        dialect.do_commit = self._commit
        event.remove(self.store.engine, "before_cursor_execute", self._before)
        event.remove(self.store.engine, "after_cursor_execute", self._behind)

    def _before(
        self, _c: Connection, _cursor: Any, statement: str, _p: Any, _context: Any, _many: bool
    ) -> None:
        if self._begins(statement):
            return
        if self._comes(statement) and not self._after:
            raise _error(statement)

    def _behind(
        self, _c: Connection, _cursor: Any, statement: str, _p: Any, _context: Any, _many: bool
    ) -> None:
        if not self._begins(statement) and self._due() and self._after:
            raise _error(statement)

    def _do_commit(self, connection: Any) -> None:
        due = self._comes(COMMIT)
        if due and not self._after:
            raise _error(COMMIT)
        self._commit(connection)
        if due:
            raise _error(COMMIT)

    def _comes(self, call: str) -> bool:
        with self._lock:
            if self._at:
                self.calls.append(call)
        return self._due()

    def _due(self) -> bool:
        with self._lock:
            count = len(self.calls)
            due = self._at > 0 and (count == self._at or (self._lasting and count > self._at))
            self._failed |= due
            return due

    @staticmethod
    def _begins(statement: str) -> bool:
        return statement.startswith("BEGIN")


def _error(call: str) -> OperationalError:
    return OperationalError(call, {}, StoreFailure(f"the store failed at: {call[:60]}"))
