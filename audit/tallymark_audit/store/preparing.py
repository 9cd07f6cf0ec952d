"""Make the tables of a new store, and bring those of an older version up to date.

Both happen in one transaction: a process that is killed meanwhile, or a disk that is full, leaves
the store as it was, and the next start begins anew. One process does it, the others wait, however
long that takes: with millions of verdicts it takes minutes. A store that is up to date is only
read, so it is opened while another process writes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Engine, func, inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tallymark.errors import UserError
from tallymark.sql import READ_ONLY
from tallymark_audit.store.judged.filling import fill
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.migrations import OLDEST, migrate

log: Final = logging.getLogger(__name__)
SUMS_SINCE: Final = 8
"""The version of the tables from which on sums and incidents are kept."""
PREPARING: Final = 0x7461_6C6C_7901
"""The lock under which tables are made or changed on PostgreSQL."""
TELL_EVERY_S: Final = 5.0
AGAIN_S: Final = 0.2
LONGEST_WAIT_S: Final = 3_600.0
"""A store that is locked for longer than this is given up."""
_CURRENT: Final = str(tables.SCHEMA_VERSION)


def prepare(engine: Engine, address: str) -> None:
    """See to it that the store has the tables of this version. UserError: its tables are of a
    version that this program does not know; SQLAlchemyError: it cannot be read or written, or
    another process has held it for :data:`LONGEST_WAIT_S`."""
    shown = make_url(address).render_as_string()
    waited = Telling(f"waiting for the process that makes the tables of the audit store {shown}")
    end = time.monotonic() + LONGEST_WAIT_S
    while not _is_current(engine, shown):
        try:
            with engine.begin() as connection:
                if _is_alone(connection):
                    _bring_up_to_date(connection, shown)
                    return
        except OperationalError as error:
            if not _is_locked(error) or time.monotonic() > end:
                raise
        waited.tell(lambda: "")
        time.sleep(AGAIN_S)


class Telling:
    """Says on the log how far long work is, every :data:`TELL_EVERY_S`; nothing of short work."""

    def __init__(self, work: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        self._began = self._last = clock()

    def tell(self, state: Callable[[], str]) -> None:
        """Call it often; ``state`` says how far it is."""
        now = self._clock()
        if now - self._last >= TELL_EVERY_S:
            self._last = now
            # A warning: commands show no others, and everything waits for this.
            log.warning("%s%s", self._work, state())

    def end(self) -> None:
        """Say that it is done, if anything was said of it."""
        if self._last > self._began:
            log.warning("%s: done after %.0f s", self._work, self._clock() - self._began)


def _is_current(engine: Engine, shown: str) -> bool:
    with engine.connect() as connection:
        reader = connection.execution_options(**{READ_ONLY: True})
        with reader.begin():
            found = _version(reader)
    if found is not None and found != _CURRENT and not _is_older(found):
        raise UserError(
            f"the audit store {shown} has tables of version {found}, this program knows {_CURRENT}",
            "use the Tallymark that wrote it, or name another store",
        )
    return found == _CURRENT


def _version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    table = tables.meta
    if not inspect(connection).has_table(table.name):
        return None
    found: str | None = connection.scalar(select(table.c.value).where(table.c.key == "schema"))
    return found


def _is_older(version: str) -> bool:
    return version.isdecimal() and OLDEST <= int(version) < tables.SCHEMA_VERSION


def _is_alone(connection: Connection) -> bool:
    """Whether no other process prepares the store, until this transaction ends. On SQLite there
    is one writer at a time."""
    if connection.dialect.name != "postgresql":
        return True
    return bool(connection.scalar(select(func.pg_try_advisory_xact_lock(PREPARING))))


def _is_locked(error: OperationalError) -> bool:
    """Whether SQLite gave up to wait for its lock."""
    return "database is locked" in str(error.orig)


def _bring_up_to_date(connection: Connection, shown: str) -> None:
    """What another process has done meanwhile is not done again."""
    found = _version(connection)
    table = tables.meta
    if found == _CURRENT:
        return
    tables.metadata.create_all(connection)
    if found is None:
        connection.execute(table.insert().values(key="schema", value=_CURRENT))
        return
    work = f"bringing the audit store {shown} from version {found} to {_CURRENT}"
    log.info("%s: once, and everything waits for it", work)
    telling = Telling(work)
    migrate(connection)
    if int(found) < SUMS_SINCE:
        fill(
            connection,
            lambda what, done, of: telling.tell(lambda: f": {what}, {done:,} of {of:,}"),
        )
    connection.execute(update(table).where(table.c.key == "schema").values(value=_CURRENT))
    telling.end()
