"""Open the store by its SQLAlchemy address, with the tables of this version there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark import sql
from tallymark.errors import UserError
from tallymark_schema_registry.store.migrations import prepare
from tallymark_schema_registry.store.same_file import SameFile, network_disk
from tallymark_schema_registry.store.sql_store import SqlStore
from tallymark_schema_registry.store.turn import reason

CREATING: Final = 0x7461_6C6C_7900
"""The lock under which tables are made on PostgreSQL."""
TIMEOUT_S: Final = 15
"""How long PostgreSQL may take for a statement, and leave a transaction open that asks nothing."""

_log = logging.getLogger(__name__)


def open_store(address: str) -> SqlStore:
    """Raises UserError, which names the address without a password."""
    try:
        url = make_url(address)
        in_memory = url.database in (None, "", ":memory:")
        if url.get_backend_name() == "sqlite" and in_memory:
            raise UserError(
                "the registry's store cannot be in memory", "give a file: sqlite:///registry.db"
            )
        return _open(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(
            f"the registry's store {address!r} is not a database address",
            "write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
        ) from error
    except ImportError as error:
        raise UserError(
            f"the registry's store needs the package {error.name}", f"install {error.name}"
        ) from error
    except OSError as error:
        raise UserError(
            f"cannot create the folder of {make_url(address).database}: {error.strerror}"
        ) from error


def _open(url: URL) -> SqlStore:
    address = url.render_as_string(hide_password=False)
    is_sqlite = url.get_backend_name() == "sqlite"
    more = {} if is_sqlite else {"connect_args": _POSTGRESQL}
    # What was acknowledged outlives a power failure.
    engine = sql.open_engine(address, synchronous="FULL", **more)
    if not is_sqlite:
        event.listen(engine, "connect", _bound_statements)
    _prepare(engine, url.render_as_string(hide_password=True))
    if not is_sqlite or url.database is None:
        return SqlStore(engine)
    path = Path(url.database)
    kind = network_disk(path)
    if kind:
        _log.warning(
            "the registry's store %s is on a network disk (%s), where SQLite may lose what it "
            "stores: keep it on a disk of this machine, or use PostgreSQL",
            path,
            kind,
        )
    return SqlStore(engine, SameFile(path) if path.exists() else None)


_POSTGRESQL: Final[dict[str, Any]] = {
    # Seconds, but for the last one. A server that is silent must not keep a request for ever.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
}


def _bound_statements(connection: Any, _record: object) -> None:
    """Not as options of the connection: poolers in between refuse those."""
    connection.execute(f"SET statement_timeout = '{TIMEOUT_S}s'")
    connection.execute(f"SET idle_in_transaction_session_timeout = '{TIMEOUT_S}s'")
    connection.commit()


def _prepare(engine: Engine, shown: str) -> None:
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # two at once would both make them
                connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
            prepare(connection, shown)
    except SQLAlchemyError as error:
        engine.dispose()
        raise UserError(
            f"the registry's store {shown} cannot be opened: {reason(error)}",
            "check that the folder or the server is there and may be written",
        ) from error
    except UserError:
        engine.dispose()
        raise
