"""The shape of a deployment. Times are milliseconds, sizes bytes, paths relative to ``data_dir``.

The defaults describe the embedded stack of ``tallymark up``: two datacenter clusters mirrored into
an aggregate cluster, all on loopback. Each table below the top is in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self, cast

from pydantic import Field, model_validator

from tallymark.deployment.audit import AuditSettings
from tallymark.deployment.clusters import BrokerAddress, Cluster, ZooKeeperSettings
from tallymark.deployment.dashboards import DashboardSettings
from tallymark.deployment.http_security import HttpSecurity
from tallymark.deployment.lake import LakeSettings
from tallymark.deployment.mirrors import Mirror
from tallymark.deployment.parts import Name, Part
from tallymark.deployment.registry import RegistrySettings
from tallymark.deployment.secret_text import resolve


def _clusters() -> tuple[Cluster, ...]:
    ports = {"dc1": 9092, "dc2": 9192, "aggregate": 9292}
    return tuple(Cluster(name=n, brokers=(BrokerAddress(port=p),)) for n, p in ports.items())


def _mirrors() -> tuple[Mirror, ...]:
    return tuple(Mirror(source=dc, target="aggregate") for dc in ("dc1", "dc2"))


def _name_of(cluster: object) -> object:
    if isinstance(cluster, dict):
        return cast("dict[str, object]", cluster).get("name")
    return getattr(cluster, "name", None)


class Deployment(Part):
    """A whole deployment. Every part of Tallymark takes this one object."""

    name: Name = "local"
    """Shown on the dashboards."""
    data_dir: Path = Path(".tallymark")
    """Everything that is kept on this machine is below it: logs of clusters and of processes,
    stores, journals."""
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    """The coordination service of all clusters."""
    clusters: tuple[Cluster, ...] = Field(default_factory=_clusters)
    """Default: ``dc1``, ``dc2`` and ``aggregate``, one broker each."""
    mirrors: tuple[Mirror, ...] = Field(default_factory=_mirrors)
    """Default: ``dc1`` and ``dc2`` into ``aggregate``, where there are clusters of these names."""
    registry: RegistrySettings = Field(default_factory=RegistrySettings)
    """The schema registry."""
    audit: AuditSettings = AuditSettings()
    """Counting and judging."""
    dashboards: DashboardSettings = Field(default_factory=DashboardSettings)
    """The web pages."""
    security: HttpSecurity = HttpSecurity()
    """TLS, log-ins and names of all HTTP servers; those of a cluster's clients are in its own
    table."""
    lake: LakeSettings | None = None
    """The tables of the load job; without this table of the settings there is no lake."""

    @model_validator(mode="before")
    @classmethod
    def _mirrors_of_clusters_that_are_there(cls, given: object) -> object:
        """Leave out default mirrors whose clusters do not exist: settings that name clusters and no
        mirrors may have no ``aggregate``."""
        if not isinstance(given, dict) or "clusters" not in given or "mirrors" in given:
            return given
        raw = cast("dict[str, object]", given)
        clusters = raw["clusters"]
        if not isinstance(clusters, list | tuple):
            return raw  # the field's own check refuses it
        names = [_name_of(one) for one in cast("Iterable[object]", clusters)]
        kept = tuple(one for one in _mirrors() if one.source in names and one.target in names)
        return {**raw, "mirrors": kept}

    @model_validator(mode="after")
    def _addresses_say_how_they_are_spoken_to(self) -> Self:
        if self.security.ssl_keystore_location:
            self.registry.secured()
            self.dashboards.secured()
        return self

    @model_validator(mode="after")
    def _mirrors_name_clusters(self) -> Self:
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) != len(names):
            raise ValueError("two clusters have the same name")
        for name in names:
            # Edges have names such as producer-to-dc1 and dc1-to-aggregate, which are parsed again.
            if name == "producer" or "-to-" in name:
                raise ValueError(f"a cluster cannot be called {name!r}")
        for one in self.audit.consumers:
            if one.cluster not in names:
                raise ValueError(f"audited group {one.group}: there is no cluster {one.cluster!r}")
        for mirror in self.mirrors:
            for end in (mirror.source, mirror.target):
                if end not in names:
                    raise ValueError(f"mirror {mirror.name}: there is no cluster {end!r}")
            if mirror.source == mirror.target:
                raise ValueError(f"mirror {mirror.name} copies a cluster into itself")
        return self

    @model_validator(mode="after")
    def _lake_is_of_clusters(self) -> Self:
        if self.lake is None:
            return self
        names = [cluster.name for cluster in self.clusters]
        for name in self.lake.clusters:
            if name not in names:
                raise ValueError(f"lake: there is no cluster {name!r}")
        if "lake" in names:
            raise ValueError("a cluster cannot be called 'lake' where there is a lake")
        return self

    def cluster(self, name: str) -> Cluster:
        """The cluster of that name; KeyError lists the existing names."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.clusters)
        raise KeyError(f"there is no cluster {name!r} (there are: {known})")

    def of_clusters(self, names: Iterable[str]) -> Self:
        """The deployment of these clusters and of those they are mirrored from, directly or not;
        all of it without names. KeyError lists the existing clusters.

        The clusters upstream belong to it: records in an aggregate are claimed where they were
        published, and would have no claim otherwise.
        """
        wanted = {self.cluster(name).name for name in names}
        if not wanted:
            return self
        while more := {one.source for one in self.mirrors if one.target in wanted} - wanted:
            wanted |= more
        consumers = tuple(one for one in self.audit.consumers if one.cluster in wanted)
        return self.model_copy(
            update={
                "clusters": tuple(one for one in self.clusters if one.name in wanted),
                "mirrors": tuple(one for one in self.mirrors if one.target in wanted),
                "audit": self.audit.model_copy(update={"consumers": consumers}),
            }
        )

    @property
    def console_url(self) -> str:
        """Where people find the dashboards, without a slash at its end: for links from outside."""
        return (self.audit.alerts.console_url or self.dashboards.url).rstrip("/")

    @property
    def audit_store(self) -> str:
        """SQLAlchemy address of the audit store."""
        given = resolve(self.audit.store, "store of [audit]")
        return given or f"sqlite:///{self.data_dir.absolute() / 'audit.db'}"

    @property
    def registry_store(self) -> str:
        """SQLAlchemy address of the schema registry's store."""
        given = resolve(self.registry.store, "store of [registry]")
        return given or f"sqlite:///{self.data_dir.absolute() / 'registry.db'}"

    @property
    def lake_path(self) -> str:
        """The folder of the lake's tables: a path of this machine, or an address with ``://``."""
        path = self.lake.path if self.lake else ""
        return path if "://" in path else str(self.data_dir.absolute() / (path or "lake"))

    @property
    def lake_clusters(self) -> tuple[Cluster, ...]:
        """The clusters whose topics are loaded into the lake; none without a lake."""
        if self.lake is None:
            return ()
        sources = {mirror.source for mirror in self.mirrors}
        wanted = self.lake.clusters or tuple(c.name for c in self.clusters if c.name not in sources)
        return tuple(cluster for cluster in self.clusters if cluster.name in wanted)

    @property
    def journal_dir(self) -> Path:
        """The folder in which producers of this host keep the journals of their claims."""
        return self.data_dir.absolute() / "journal"

    @property
    def log_dir(self) -> Path:
        """The folder for the logs of processes that ``up`` starts, one file for each process."""
        return self.data_dir.absolute() / "logs"
