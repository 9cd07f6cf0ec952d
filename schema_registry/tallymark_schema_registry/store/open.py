"""Open the store's database by its SQLAlchemy address and create what is missing in it."""

from __future__ import annotations

from sqlalchemy import Engine, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark import sql
from tallymark.errors import UserError
from tallymark_schema_registry.store.tables import metadata

CREATING = 0x7461_6C6C_7900
"""The lock under which tables are made on PostgreSQL."""


def open_engine(address: str) -> Engine:
    """An engine with the tables there. Raises UserError naming the address (without a password)."""
    try:
        url = make_url(address)
        if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
            raise UserError(
                "the registry's store cannot be in memory", "give a file: sqlite:///registry.db"
            )
        # What was acknowledged outlives a power failure.
        return _create_tables(sql.open_engine(address, synchronous="FULL"), address)
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


def _create_tables(engine: Engine, address: str) -> Engine:
    shown = make_url(address).render_as_string(hide_password=True)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # two at once would both make them
                connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
            metadata.create_all(connection)
    except SQLAlchemyError as error:
        engine.dispose()
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise UserError(
            f"the registry's store {shown} cannot be opened: {reason}",
            "check that the folder or the server is there and may be written",
        ) from error
    return engine
