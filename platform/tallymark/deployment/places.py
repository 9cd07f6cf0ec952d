"""The addresses of a deployment's clusters and processes, read without the model of its settings.

The model (:mod:`.model`) checks every setting; loading it takes 0.15 s of processor time, most of
it for pydantic. ``tallymark topics list`` and a container's health check need only addresses, so
they read these with :func:`places`, which reads nothing else and accepts only plain values. For
anything that it does not expect it returns None, and the caller loads the model, whose errors name
the setting. Fields and defaults are the model's (tests/deployment/test_places.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallymark.deployment.load import find_settings

_LOOPBACK: Final = "127.0.0.1"
PATH_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*){1,8}")
"""Below which a proxy serves the dashboards."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,48}")
_TABLES: Final = frozenset({"name", "data_dir", "zookeeper", "clusters", "mirrors", "registry"}) | {
    "audit",
    "dashboards",
    "security",
    "lake",
}
_SECURITY: Final = {"ssl_keystore_location", "ssl_key_password_file", "users_file"} | {
    "ssl_truststore_location",
    "username",
    "password_file",
    "password_env",
    "token_file",
    "allowed_hosts",
}
_DASHBOARDS: Final = {"advertised_host", "path_prefix", "actions", "masked_fields"} | {
    "snapshot_ms",
    "roles",
    "proxy",
}
_TOKENS: Final = {"jwks", "issuer", "audience", "user_claim", "roles_claim"} | {
    "leeway_s",
    "refresh_s",
}


class _Unexpected(Exception):
    """The settings contain something that only the model can read."""


class ZooKeeperPlace(NamedTuple):
    """As :class:`~.model.ZooKeeperSettings`."""

    host: str = _LOOPBACK
    port: int = 2181
    embedded: bool = True
    session_timeout_ms: int = 6000

    @property
    def connect(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerPlace(NamedTuple):
    """As :class:`~.model.BrokerAddress`."""

    port: int
    id: int = 0
    host: str = _LOOPBACK
    advertised_host: str = ""

    @property
    def address(self) -> str:
        return f"{self.advertised_host or self.host}:{self.port}"


class ClusterPlace(NamedTuple):
    """As :class:`~.model.Cluster`; ``secured`` when its clients need more than an address."""

    name: str
    brokers: tuple[BrokerPlace, ...]
    kind: str = "tallymark"
    chroot: str = ""
    embedded: bool = True
    secured: bool = False

    @property
    def root(self) -> str:
        return self.chroot or f"/{self.name}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)


class MirrorPlace(NamedTuple):
    """As :class:`~.model.Mirror`."""

    source: str
    target: str
    embedded: bool = True

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}"


class ServerPlace(NamedTuple):
    """As :class:`~.model.RegistrySettings` and :class:`~.dashboards.DashboardSettings`."""

    port: int
    host: str = _LOOPBACK
    advertised_host: str = ""
    embedded: bool = True
    scheme: str = "http"
    path_prefix: str = ""

    @property
    def url(self) -> str:
        name = self.advertised_host or self.host
        return f"{self.scheme}://{name}:{self.port}{self.path_prefix}"


class Places(NamedTuple):
    """As :class:`~.model.Deployment`, but only the addresses."""

    data_dir: Path
    zookeeper: ZooKeeperPlace
    clusters: tuple[ClusterPlace, ...]
    mirrors: tuple[MirrorPlace, ...]
    registry: ServerPlace
    dashboards: ServerPlace

    def cluster(self, name: str) -> ClusterPlace:
        """The cluster of that name; KeyError lists the existing names."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.clusters)
        raise KeyError(f"there is no cluster {name!r} (there are: {known})")

    @property
    def log_dir(self) -> Path:
        return self.data_dir.absolute() / "logs"


def find_places(explicit: str | Path | None = None) -> Places | None:
    """The places in the settings file that :func:`~.load.load` would read; None: the caller has to
    use that function."""
    path = find_settings(explicit)
    try:
        return places(tomllib.loads(path.read_text(encoding="utf-8")) if path else {})
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None


def places(raw: Mapping[str, Any]) -> Places | None:
    """The places in the settings ``raw``; None where they contain anything unexpected."""
    if not raw.keys() <= _TABLES:
        return None
    try:
        scheme = _scheme(_table(raw, "security"))
        clusters = _clusters(raw)
        _only(_table(_table(raw, "registry"), "tokens"), _TOKENS)
        return Places(
            Path(_text(raw, "data_dir", ".tallymark")),
            _zookeeper(_table(raw, "zookeeper")),
            clusters,
            _mirrors(raw, {cluster.name for cluster in clusters}),
            _server(
                _table(raw, "registry"),
                8081,
                scheme,
                {"advertised_host", "store", "access_file", "response_profile", "tokens"},
            ),
            _server(_table(raw, "dashboards"), 8080, scheme, _DASHBOARDS),
        )
    except _Unexpected:
        return None


def _zookeeper(table: Mapping[str, Any]) -> ZooKeeperPlace:
    _only(table, {"host", "port", "embedded", "session_timeout_ms"})
    return ZooKeeperPlace(
        _text(table, "host", _LOOPBACK),
        _port(table, 2181),
        _flag(table, "embedded"),
        _number(table, "session_timeout_ms", 6000, 2000, 300_000),
    )


def _clusters(raw: Mapping[str, Any]) -> tuple[ClusterPlace, ...]:
    if "clusters" not in raw:
        ports = {"dc1": 9092, "dc2": 9192, "aggregate": 9292}
        return tuple(ClusterPlace(n, (BrokerPlace(port=p),)) for n, p in ports.items())
    found = tuple(map(_cluster, _tables(raw, "clusters")))
    if len({one.name for one in found}) != len(found):
        raise _Unexpected
    return found


def _cluster(table: Mapping[str, Any]) -> ClusterPlace:
    _only(table, {"name", "kind", "brokers", "chroot", "embedded", "broker_settings", "security"})
    kind = _text(table, "kind", "tallymark")
    if kind not in ("tallymark", "apache-kafka"):
        raise _Unexpected
    security = _table(table, "security")
    return ClusterPlace(
        _name(table, "name"),
        tuple(map(_broker, _tables(table, "brokers"))),
        kind,
        _text(table, "chroot", ""),
        _flag(table, "embedded"),
        _text(security, "security_protocol", "PLAINTEXT") != "PLAINTEXT",
    )


def _broker(table: Mapping[str, Any]) -> BrokerPlace:
    _only(table, {"id", "host", "port", "advertised_host"})
    return BrokerPlace(
        _port(table),
        _number(table, "id", 0, 0, 2**31 - 1),
        _text(table, "host", _LOOPBACK),
        _text(table, "advertised_host", ""),
    )


def _mirrors(raw: Mapping[str, Any], clusters: set[str]) -> tuple[MirrorPlace, ...]:
    if "mirrors" not in raw:
        there = [dc for dc in ("dc1", "dc2") if {dc, "aggregate"} <= clusters]
        return tuple(MirrorPlace(dc, "aggregate") for dc in there)
    return tuple(
        MirrorPlace(_name(table, "source"), _name(table, "target"), _flag(table, "embedded"))
        for table in _tables(raw, "mirrors")
    )


def _scheme(security: Mapping[str, Any]) -> str:
    _only(security, _SECURITY)
    return "https" if _text(security, "ssl_keystore_location", "") else "http"


def _server(table: Mapping[str, Any], port: int, scheme: str, others: set[str]) -> ServerPlace:
    _only(table, {"host", "port", "embedded", "allow_plaintext", *others})
    return ServerPlace(
        _port(table, port),
        _text(table, "host", _LOOPBACK),
        _text(table, "advertised_host", ""),
        _flag(table, "embedded"),
        scheme,
        _prefix(table),
    )


def _prefix(table: Mapping[str, Any]) -> str:
    found = _text(table, "path_prefix", "")
    if found and not PATH_PREFIX.fullmatch(found):
        raise _Unexpected
    return found


def _only(table: Mapping[str, Any], known: set[str]) -> None:
    if not table.keys() <= known:
        raise _Unexpected


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise _Unexpected
    return found


def _tables(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = table.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _Unexpected
    return found


def _text(table: Mapping[str, Any], name: str, default: str) -> str:
    found = table.get(name, default)
    if not isinstance(found, str):
        raise _Unexpected
    return found


def _name(table: Mapping[str, Any], name: str) -> str:
    found = _text(table, name, "")
    if not _NAME.fullmatch(found):
        raise _Unexpected
    return found


def _flag(table: Mapping[str, Any], name: str) -> bool:
    found = table.get(name, True)
    if not isinstance(found, bool):
        raise _Unexpected
    return found


def _port(table: Mapping[str, Any], default: int | None = None) -> int:
    return _number(table, "port", default, 0, 65535)


def _number(table: Mapping[str, Any], name: str, default: int | None, low: int, high: int) -> int:
    found = table.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
        raise _Unexpected
    return found
