"""What a broker works with: the monitoring, its own log, ZooKeeper."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tallymark.broker.settings.fields.part import SettingsPart


class EnvironmentFields(SettingsPart):
    """Metrics, the broker's own log, and ZooKeeper."""

    metrics_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """The port of ``/metrics`` (Prometheus) and ``/health`` over HTTP; -1: none, 0: a free one."""

    metrics_host: str = "127.0.0.1"
    """The address that ``metrics.port`` is on. On loopback it needs no log-in; elsewhere it
    speaks TLS with ``ssl.keystore.location`` and asks for one of the broker's users (HTTP
    Basic), or needs ``listeners.allow.plaintext``."""

    metrics_max_topics: Annotated[int, Field(ge=0, le=10_000)] = 200
    """Topics that are counted by themselves in the metrics; what comes later is ``(other)``."""

    log_format: Literal["text", "json"] = "text"
    """How the broker writes its own log to standard error: lines of text, or one JSON object a
    line."""

    enable_zookeeper: bool = True
    """False: this broker is a cluster of its own and needs no ZooKeeper (tests, laptops)."""

    zookeeper_connect: str = "127.0.0.1:2181"
    """``host:port[,host:port...][/chroot]`` of the ZooKeeper ensemble of the cluster."""

    zookeeper_session_timeout_ms: Annotated[int, Field(ge=1000, le=3_600_000)] = 6000
    """Silence after which ZooKeeper gives up a broker, and its registration goes."""

    zookeeper_connection_timeout_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 15_000
    """How long a starting broker waits for ZooKeeper."""

    zookeeper_user: str = ""
    """The user of the broker in ZooKeeper (its ``digest`` scheme); empty: none."""

    zookeeper_password: str = ""
    """The password of ``zookeeper.user``. Parts that read no broker settings (mirrors, consumers,
    commands) take both from ``TALLYMARK_ZOOKEEPER_USER`` and ``TALLYMARK_ZOOKEEPER_PASSWORD``."""

    zookeeper_set_acl: bool = True
    """Whether, where there is a ``zookeeper.user``, what brokers write in ZooKeeper is closed to
    clients without these credentials: they may read it, but neither change it nor see the users'
    credentials. A broker that starts closes what was open before."""

    zookeeper_allow_open: bool = False
    """Whether ``authorizer.enable`` may be on while ZooKeeper, which holds users and access-control
    lists, is open to every client: only where nothing but the brokers can reach it."""
