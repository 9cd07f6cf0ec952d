"""The catalogue of an Iceberg lake: which version of a table is the newest is a row in it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config
from sqlalchemy import NullPool, create_engine

from tallymark.errors import UserError

NAME: Final = "tallymark"
"""The name under which pyiceberg's own settings may describe the catalogue:
``PYICEBERG_CATALOG__TALLYMARK__URI`` and so on."""
_FILE: Final = "catalog.db"


def connect(path: str, properties: Mapping[str, str], options: Mapping[str, str]) -> Catalog:
    """A connection to the catalogue that the properties describe, or else pyiceberg's settings, or
    else to a SQLite file in the folder of the lake. UserError: it cannot be used."""
    try:
        if properties or Config().get_catalog_config(NAME):
            return _without_a_pool(load_catalog(NAME, **{**options, **properties}))
        if "://" in path:
            raise UserError(
                f"{path}: Iceberg tables in an object store need a catalogue: describe it in"
                f" pyiceberg's settings, PYICEBERG_CATALOG__{NAME.upper()}__URI for instance"
            )
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        own = {"uri": f"sqlite:///{folder / _FILE}", "warehouse": folder.as_uri()}
        with _alone(folder):
            return _without_a_pool(SqlCatalog(NAME, **own))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the catalogue of the lake {path} cannot be used: {error}") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two processes that load the first topics of a lake would make the same catalogue."""
    with (folder / f"{_FILE}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _without_a_pool(catalogue: Catalog) -> Catalog:
    """A table is opened and committed to, minutes apart: a catalogue in a database keeps no
    connection in between. For a locked SQLite file it waits half a minute."""
    if isinstance(catalogue, SqlCatalog):
        url = catalogue.engine.url
        catalogue.engine.dispose()
        waiting = {"timeout": 30} if url.get_backend_name() == "sqlite" else {}
        catalogue.engine = create_engine(url, poolclass=NullPool, connect_args=waiting)
    return catalogue
