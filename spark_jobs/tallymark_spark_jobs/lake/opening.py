"""Which table, in which format, where.

A lake is a folder with one table a topic, ``<path>/<cluster>/<topic>``. A catalogue of Iceberg has
them as ``<cluster>.<topic>``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from tallymark.deployment import Deployment, LakeSettings
from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.lake.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Format = Literal["delta", "iceberg"]
_EXTRAS: Final = {"delta": ("lake", "deltalake"), "iceberg": ("iceberg", "pyiceberg")}
"""By format: the extra that brings it, and its package."""


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
        module = self.format_module("table")
        if self.format == "delta":
            return cast("CommittedTable[Any]", module.DeltaLakeTable(storage))
        return cast(
            "CommittedTable[Any]", module.IcebergTable(storage, self.connect, (cluster, name))
        )

    def tables(self) -> list[tuple[str, str]]:
        """Cluster and topic of every folder that may be a table, sorted. UserError: as above."""
        self.require()
        return [
            (cluster, topic)
            for cluster in Storage(self.path, self.options).folders()
            if not cluster.startswith("_")
            for topic in Storage(f"{self.path.rstrip('/')}/{cluster}", self.options).folders()
        ]

    def format_module(self, name: str) -> Any:
        """A module of the lake's format. UserError: the format's package is not installed."""
        self.require()
        return importlib.import_module(f"tallymark_spark_jobs.lake.{self.format}.{name}")

    def require(self) -> None:
        """UserError: what tables of this format need is not installed."""
        extra, package = _EXTRAS[self.format]
        try:
            for needed in ("pyarrow", package):
                importlib.import_module(needed)
        except ModuleNotFoundError as error:
            raise UserError(
                f"tables of the format {self.format} need the package {error.name}, which is not"
                " installed",
                f"pip install 'tallymark[{extra}]'",
            ) from None

    def connect(self) -> Catalog:
        """A connection to Iceberg's catalogue. UserError: it cannot be used."""
        catalogue = self.format_module("catalogue")
        return cast("Catalog", catalogue.connect(self.path, self.catalogue, self.options))


def lake_of(deployment: Deployment) -> Lake:
    """The lake of the settings. UserError: they have none."""
    return Lake(deployment.lake_path, lake_settings(deployment).format)


def lake_settings(deployment: Deployment) -> LakeSettings:
    """The table ``[lake]``. UserError: there is none."""
    if deployment.lake is None:
        raise UserError(
            "the settings have no [lake], so there is nothing to load into",
            "add the table [lake] to them; docs/settings.md says what it may hold",
        )
    return deployment.lake
