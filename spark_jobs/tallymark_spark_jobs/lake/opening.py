"""Which table, in which format, where.

A lake is a folder with one table a topic, ``<path>/<cluster>/<topic>``. A catalogue of Iceberg has
them as ``<cluster>.<topic>``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.lake.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Format = Literal["delta", "iceberg"]
CATALOGUE: Final = "tallymark"
"""The name under which pyiceberg's own settings may describe the catalogue:
``PYICEBERG_CATALOG__TALLYMARK__URI`` and so on."""
_EXTRAS: Final = {"deltalake": "lake", "pyiceberg": "iceberg", "pyarrow": "spark"}


@dataclass(frozen=True)
class Lake:
    """The folder of all tables. ``options`` are those of the object store; ``catalogue`` the
    properties of Iceberg's, by default a SQLite file in the folder."""

    path: str
    format: Format = "delta"
    options: Mapping[str, str] = field(default_factory=dict)
    catalogue: Mapping[str, str] = field(default_factory=dict)

    def table(self, cluster: str, name: str) -> CommittedTable[Any]:
        """The table of a topic, which may not exist yet. Nothing is opened. UserError: the format's
        package is not installed."""
        storage = Storage(f"{self.path.rstrip('/')}/{cluster}/{name}", self.options)
        try:
            if self.format == "delta":
                delta = importlib.import_module("tallymark_spark_jobs.lake.delta")
                return cast("CommittedTable[Any]", delta.DeltaLakeTable(storage))
            iceberg = importlib.import_module("tallymark_spark_jobs.lake.iceberg")
            return cast(
                "CommittedTable[Any]", iceberg.IcebergTable(storage, self.connect, (cluster, name))
            )
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(error.name or "")
            if extra is None:
                raise
            raise UserError(
                f"tables of the format {self.format} need {error.name}:"
                f" pip install 'tallymark[{extra}]'"
            ) from error

    def connect(self) -> Catalog:
        """A connection to Iceberg's catalogue. UserError: it cannot be used."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config

        properties = dict(self.catalogue)
        if not properties and not Config().get_catalog_config(CATALOGUE):
            if "://" in self.path:
                raise UserError(
                    f"{self.path}: Iceberg tables in an object store need a catalogue: describe it"
                    f" in pyiceberg's settings, PYICEBERG_CATALOG__{CATALOGUE.upper()}__URI"
                    " for instance"
                )
            folder = Path(self.path).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            properties = {
                "type": "sql",
                "uri": f"sqlite:///{folder / 'catalog.db'}",
                "warehouse": folder.as_uri(),
            }
        for last in (False, False, False, True):
            try:
                return _without_a_pool(load_catalog(CATALOGUE, **{**self.options, **properties}))
            except Exception as error:
                # Two processes that make the first table of a lake make the same catalogue.
                if last or "already exists" not in str(error):
                    raise UserError(f"the catalogue of the lake cannot be used: {error}") from error
        raise AssertionError("the last attempt returns or raises")


def _without_a_pool(catalogue: Catalog) -> Catalog:
    """A table is opened and committed to, minutes apart: a catalogue in a database keeps no
    connection in between. For a locked SQLite file it waits half a minute."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import NullPool, create_engine

    if isinstance(catalogue, SqlCatalog):
        url = catalogue.engine.url
        catalogue.engine.dispose()
        waiting = {"timeout": 30} if url.get_backend_name() == "sqlite" else {}
        catalogue.engine = create_engine(url, poolclass=NullPool, connect_args=waiting)
    return catalogue
