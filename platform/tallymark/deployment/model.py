"""The shape of a deployment. Times are milliseconds, sizes bytes, paths relative to ``data_dir``.

The defaults describe the embedded stack of ``tallymark up``: two datacenter clusters mirrored into
an aggregate cluster, all on loopback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import Field, PrivateAttr, model_validator

from tallymark.deployment.audit import AuditSettings
from tallymark.deployment.dashboards import DashboardSettings
from tallymark.deployment.lake import LakeSettings
from tallymark.deployment.parts import LOOPBACK, Name, Part, Port
from tallymark.deployment.secret_text import resolve


class ZooKeeperSettings(Part):
    """The coordination service. ``embedded`` starts Apache ZooKeeper as a child of ``up``."""

    host: str = LOOPBACK
    """Where ZooKeeper listens and is found."""
    port: Port = 2181
    """Its client port."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it."""
    session_timeout_ms: Annotated[int, Field(ge=2000, le=300_000)] = 6000
    """How long a broker or consumer may be silent before it counts as gone."""

    @property
    def connect(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerAddress(Part):
    """One broker of a cluster: where it listens, and which address clients get."""

    id: Annotated[int, Field(ge=0)] = 0
    """Unique in the cluster."""
    host: str = LOOPBACK
    """Where it listens."""
    port: Port
    """Its port."""
    advertised_host: str = ""
    """The address that clients get; empty: the same as ``host``."""

    @property
    def address(self) -> str:
        return f"{self.advertised_host or self.host}:{self.port}"


class ClusterSecurity(Part):
    """How clients are secured at the cluster's brokers, by Kafka's names. Passwords are never in
    the settings: they are in a file that few may read, or in the environment."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """What the listener speaks that clients come to."""
    ssl_truststore_location: str = ""
    """PEM file of the authorities that are trusted; empty: the system's."""
    ssl_keystore_location: str = ""
    """PEM file with key and certificate chain, for brokers that want a client certificate."""
    ssl_key_password_file: str = ""
    """File whose first line is the password of that key, if it is encrypted."""
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """Empty: the broker's certificate may be for any name."""
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = ""
    """How clients log in."""
    sasl_username: str = ""
    """As whom."""
    sasl_password_file: str = ""
    """File whose first line is the password."""
    sasl_password_env: str = ""
    """Or the name of an environment variable that holds it."""
    sasl_oauthbearer_token_endpoint_url: str = ""
    """For OAUTHBEARER, where tokens come from: ``https://...``, which gives them for a client id
    and its secret, or ``file:///...``, a file that holds one and is renewed from outside."""
    sasl_oauthbearer_client_credentials_client_id: str = ""
    """As which client."""
    sasl_oauthbearer_client_credentials_client_secret_file: str = ""
    """File whose first line is its secret."""
    sasl_oauthbearer_scope: str = ""
    """The scope that is asked for; empty: the endpoint's default."""


class Cluster(Part):
    """One cluster, ours or Apache Kafka. ``chroot`` is its root in ZooKeeper."""

    name: Name
    """How the cluster is called in settings, commands and verdicts."""
    kind: Literal["tallymark", "apache-kafka"] = "tallymark"
    """Whose brokers they are. Of Apache Kafka's only the brokers are asked; ZooKeeper holds no more
    than the groups of our own consumers, below ``chroot``."""
    brokers: tuple[BrokerAddress, ...]
    """Its brokers; of an Apache Kafka cluster some are enough to find the others."""
    chroot: str = ""
    """Empty: ``/<name>``."""
    embedded: bool = True
    """Whether ``tallymark up`` starts its brokers."""
    broker_settings: dict[str, str | int | float | bool] = Field(default_factory=dict, repr=False)
    """For every broker of the cluster, by the names of ``tallymark broker --help-settings``, or of
    Apache Kafka's ``server.properties``."""
    security: ClusterSecurity = ClusterSecurity()
    """How clients are secured at its brokers."""

    @model_validator(mode="after")
    def _brokers_have_ids_of_their_own(self) -> Self:
        ids = [broker.id for broker in self.brokers]
        if len(set(ids)) != len(ids):
            raise ValueError(f"two brokers of {self.name} have the same id")
        return self

    @model_validator(mode="after")
    def _apache_kafka_is_started_alone(self) -> Self:
        if self.kind == "apache-kafka" and self.embedded and len(self.brokers) != 1:
            raise ValueError(
                f"of Apache Kafka only a cluster of one broker can be started: give {self.name} "
                "one, or embedded = false"
            )
        return self

    @property
    def root(self) -> str:
        return self.chroot or f"/{self.name}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)


class Mirror(Part):
    """``source`` is copied into ``target``; ``topics`` is a regular expression on topic names."""

    source: Name
    """The cluster that is copied."""
    target: Name
    """The cluster that is copied into."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it; false: another program copies (MirrorMaker), and the hop
    is judged by what arrives."""
    topics: str = ".*"
    """A regular expression; a topic is copied if all of its name matches. Internal ones (leading
    ``_``) never are."""
    exclude: str = ""
    """Another one: topics whose whole name matches are not copied, even if ``topics`` matches."""
    rename: str = "{topic}"
    """What a topic is called at the target: ``{topic}``, ``{source}`` and ``{target}`` are filled
    in, as in ``{source}.{topic}``."""
    renames: dict[str, str] = Field(default_factory=dict)
    """Before that: regular expression on a whole name -> what the target calls such a topic, with
    ``\\1`` for its first group. The first that matches counts."""
    partitions: Literal["keep", "by-key"] = "keep"
    """``keep``: what is in partition 3 stays in partition 3, where the target has as many; where it
    has fewer, or with ``by-key``, the key decides, as with a producer."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether what transactions of the source aborted is left out; then what they have not ended
    yet is waited for."""
    on_corrupt: Literal["stop", "skip"] = "skip"
    """What becomes of a batch of the source whose CRC does not hold, each time it is read: it is
    left out, logged, and reported as a gap of kind ``corrupt``, so what it held is LOSS until it is
    repaired; or its partition waits there, and is named, until the log is repaired. What
    cannot be repaired, because it was sent like that, is left out in any case."""
    max_repeated_records: Annotated[int, Field(ge=1)] = 100_000
    """What a process that is killed may leave there twice: so many records at most are under way
    or not stored as copied, or one batch if that has more."""
    checkpoint_groups: str = ""
    """A regular expression: the offsets that such consumer groups have committed at the source are
    translated, and committed at the target, every few seconds."""
    metrics_host: str = LOOPBACK
    """Where ``/metrics`` listens."""
    metrics_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """Its port; -1: there are no metrics."""
    metrics_allow_plaintext: bool = False
    """Whether other machines may reach it without TLS or without a log-in."""

    @model_validator(mode="after")
    def _rules_can_be_read(self) -> Self:
        for pattern in (self.topics, self.exclude, self.checkpoint_groups, *self.renames):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"mirror {self.name}: {pattern!r}: {error}") from error
        try:
            if "x" not in self.rename.format(topic="x", source="", target=""):
                raise ValueError("it lacks {topic}")
            for pattern, name in self.renames.items():
                re.compile(pattern).sub(name, "")
        except (KeyError, IndexError, ValueError, re.error) as error:
            raise ValueError(f"mirror {self.name}: the renaming cannot be read: {error}") from error
        return self

    @model_validator(mode="after")
    def _no_two_become_one(self) -> Self:
        """Refuse two topics with one name at the target. Only topics named in the settings are
        known here: patterns that are plain names."""
        names: dict[str, str] = {}
        for topic in filter(_is_name, self.renames):
            if not self.copies(topic):
                continue
            target = self.target_topic(topic)
            other = names.setdefault(target, topic)
            if other != topic:
                raise ValueError(
                    f"mirror {self.name}: {other!r} and {topic!r} would both be called {target!r}, "
                    "and nobody could tell their records apart: give each a name of its own"
                )
        return self

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}"

    def copies(self, topic: str) -> bool:
        """Whether the mirror copies the source's topic of that name."""
        if topic.startswith("_") or not re.fullmatch(self.topics, topic):
            return False
        return not (self.exclude and re.fullmatch(self.exclude, topic))

    def target_topic(self, topic: str) -> str:
        """The name of the source's topic at the target."""
        for pattern, name in self.renames.items():
            found = re.fullmatch(pattern, topic)
            if found:
                return found.expand(name)
        return self.rename.format(topic=topic, source=self.source, target=self.target)


def _is_name(pattern: str) -> bool:
    """Whether a regular expression is also the name of a topic, which it then matches."""
    return bool(re.fullmatch(r"[A-Za-z0-9._-]+", pattern))


class RegistryTokens(Part):
    """JSON Web Tokens of an issuer (OpenID Connect) with which clients may log in at the registry.
    Needs the extra ``oauth``, and ``access_file``, whose roles the tokens name."""

    jwks: str = ""
    """Where the issuer's public keys are: ``https://...`` or ``file:///...``; empty: no such tokens
    are taken."""
    issuer: str = ""
    """What a token must have as ``iss``; empty: anything."""
    audience: tuple[str, ...] = ()
    """One of these must be in a token's ``aud``; empty: any token of the issuer is taken."""
    user_claim: str = "sub"
    """The claim that names the user."""
    roles_claim: str = "roles"
    """The claim that lists roles; dots lead into objects (``realm_access.roles``)."""
    leeway_s: float = Field(default=30.0, ge=0, le=600)
    """How far the clocks of the issuer and the registry may be apart, in seconds."""
    refresh_s: float = Field(default=300.0, ge=10)
    """How often the keys are read again, in seconds."""


class RegistrySettings(Part):
    """The schema registry."""

    host: str = LOOPBACK
    """Where it listens."""
    port: Port = 8081
    """Its port."""
    advertised_host: str = ""
    """What clients use; empty: the same as ``host``."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it."""
    allow_plaintext: bool = False
    """Whether other machines may reach it without TLS or without a log-in."""
    access_file: str = ""
    """Users, tokens and their rights on subjects, as ``tallymark registry-access`` writes them.
    With it every request needs a log-in, and ``users_file`` of ``[security]`` is not used here."""
    tokens: RegistryTokens = RegistryTokens()
    """Log-ins by tokens of an issuer."""
    store: str = Field(default="", repr=False)
    """SQLAlchemy address; empty: SQLite in ``data_dir/registry.db``. ``${NAME}`` is replaced by a
    variable of the environment, ``${file:PATH}`` by the first line of a file."""
    response_profile: Literal[7, 8] = 7
    """Whose answers it gives: 7 those of the ecosystem's servers up to 7.4, which every client
    reads; 8 those of 8.2 and later (``schemaType``, ``guid``, ``ts``, ``deleted``, code 40901)."""
    _scheme: str = PrivateAttr("http")

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.advertised_host or self.host}:{self.port}"

    def secured(self) -> None:
        """It speaks TLS, as ``[security]`` says."""
        self._scheme = "https"


class HttpSecurity(Part):
    """How everything that speaks HTTP is secured: the registry, the dashboards with the API, and
    the metrics of collectors and mirrors."""

    ssl_keystore_location: str = ""
    """PEM file with private key and certificate chain: with it they speak TLS."""
    ssl_key_password_file: str = ""
    """File whose first line is the password of that key, if it is encrypted."""
    users_file: str = ""
    """The users that may log in (HTTP Basic): the ``security.json`` that ``tallymark users add NAME
    --data FOLDER`` writes. With it every request needs a log-in."""
    ssl_truststore_location: str = ""
    """PEM file of the authorities that our own clients of the registry trust; empty: the
    system's."""
    username: str = ""
    """As whom our own clients log in at the registry."""
    password_file: str = ""
    """File whose first line is the password."""
    password_env: str = ""
    """Or the name of an environment variable that holds it."""
    token_file: str = ""
    """Where there is no ``username``: file whose first line is the bearer token by which our own
    clients log in at the registry."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside those that are configured and advertised, by which browsers may come: such of a
    proxy in front, for example."""


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
