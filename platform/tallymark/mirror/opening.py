"""The start of a mirror: connects to both clusters, and creates the parts that use them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

from tallymark.client.admin.admin import Admin
from tallymark.client.core.security.deployment import connection_settings, security_settings
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.coordination import ZooKeeper
from tallymark.deployment import Cluster, Deployment
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.errors import UserError
from tallymark.mirror.connect import REQUEST_TIMEOUT_MS, connect
from tallymark.mirror.copying.copier import Copier
from tallymark.mirror.copying.duplicate_bound import DuplicateBound
from tallymark.mirror.copying.topics import TargetTopics
from tallymark.mirror.observer import MirrorContext, ObserverChain
from tallymark.mirror.progress import Partition
from tallymark.mirror.source.catalog import BrokerCatalog, ZooKeeperCatalog
from tallymark.mirror.source.noting_consumer import SourceSettings
from tallymark.mirror.source.source import Source
from tallymark.mirror.source.topic_ids import TopicIds
from tallymark.mirror.target.loop_guard import LoopGuard
from tallymark.mirror.target.target import Target


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """The two clusters: an admin of each, and their ids (of a cluster without one, its name in the
    settings)."""

    source: Admin
    target: Admin
    source_id: str
    target_id: str


@dataclass(frozen=True, slots=True)
class MirrorParts:
    """What a mirror is made of."""

    source: Source
    target: Target
    copier: Copier
    clusters: ClusterPair
    zookeeper: ZooKeeper


def open_parts(
    opened: ExitStack,
    deployment: Deployment,
    settings: MirrorSettings,
    observers: ObserverChain,
    timeout_ms: int,
    before_release: Callable[[], Mapping[Partition, int]],
) -> MirrorParts:
    """All parts of a mirror; ``opened`` closes them. The group is joined later, by
    ``source.open()``.

    UserError, ConnectError: after about ``timeout_ms``, a cluster or ZooKeeper is not there."""
    source, target = deployment.cluster(settings.source), deployment.cluster(settings.target)
    client_id = client_id_of(settings)
    clusters = connect_both(opened, deployment, settings, timeout_ms)
    session = _open_session(opened, deployment, source, timeout_ms)
    catalog = BrokerCatalog(clusters.source) if _is_foreign(source) else ZooKeeperCatalog(session)
    sends = opened.enter_context(closing(Target(target, client_id)))
    reader = SimpleConsumer(
        client_id=client_id,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        **connection_settings(source),
    )
    opened.callback(reader.close)
    reads = Source(
        _source_settings(deployment, settings),
        TopicIds(session, client_id, catalog),
        before_release,
    )
    opened.callback(reads.close)
    copier = Copier(
        reads,
        sends,
        TargetTopics(settings, catalog, clusters.source, clusters.target),
        observers,
        LoopGuard(reader),
        clusters.source_id,
        clusters.target_id,
        DuplicateBound(settings.max_repeated_records),
    )
    observers.attach(_context(deployment, settings, clusters, sends))
    return MirrorParts(reads, sends, copier, clusters, session)


def connect_both(
    opened: ExitStack, deployment: Deployment, settings: MirrorSettings, timeout_ms: int
) -> ClusterPair:
    """Both clusters. UserError: one does not answer, or they are the same."""
    source, target = deployment.cluster(settings.source), deployment.cluster(settings.target)
    client_id = client_id_of(settings)
    deadline = time.monotonic() + timeout_ms / 1000
    from_admin, from_id = connect(opened, source, client_id, deadline)
    to_admin, to_id = connect(opened, target, client_id, deadline)
    if from_id and from_id == to_id:
        raise UserError(
            f"{source.name} and {target.name} are the same cluster ({from_id}): "
            "it would be copied into itself, for ever",
            "mend the addresses of the clusters in the settings",
        )
    return ClusterPair(from_admin, to_admin, from_id or source.name, to_id or target.name)


def client_id_of(settings: MirrorSettings) -> str:
    """The name that a mirror gives the brokers of both sides."""
    return f"mirror-{settings.name}"


def _is_foreign(source: Cluster) -> bool:
    """Whether it is a cluster of Apache Kafka: ZooKeeper holds only the mirror's group for it."""
    return source.kind == "apache-kafka"


def _open_session(
    opened: ExitStack, deployment: Deployment, source: Cluster, timeout_ms: int
) -> ZooKeeper:
    session = ZooKeeper(
        _zookeeper_connect(deployment, source),
        session_timeout_ms=deployment.zookeeper.session_timeout_ms,
        connect_timeout_ms=timeout_ms,
    )
    session.start(create_root=_is_foreign(source))
    opened.callback(session.close)
    return session


def _source_settings(deployment: Deployment, settings: MirrorSettings) -> SourceSettings:
    source = deployment.cluster(settings.source)
    return SourceSettings(
        _zookeeper_connect(deployment, source),
        client_id_of(settings),
        topics_pattern(deployment, settings),
        deployment.zookeeper.session_timeout_ms,
        source.bootstrap_servers if _is_foreign(source) else None,
        settings.isolation,
        settings.on_corrupt == "skip",
        security_settings(source.security),
    )


def _zookeeper_connect(deployment: Deployment, source: Cluster) -> str:
    return f"{deployment.zookeeper.connect}{source.root}"


def _context(
    deployment: Deployment, settings: MirrorSettings, clusters: ClusterPair, sends: Target
) -> MirrorContext:
    """What observers get to know of the mirror."""
    return MirrorContext(
        source=settings.source,
        target=settings.target,
        client_id=client_id_of(settings),
        source_cluster_id=clusters.source_id,
        target_cluster_id=clusters.target_id,
        deployment=deployment,
        publish=sends.context.publish,
        create_topic=sends.context.create_topic,
    )


def topics_pattern(deployment: Deployment, settings: MirrorSettings) -> str:
    """The topics to read, as one regular expression on whole names. Excluded topics are left out,
    and so are topics with the prefix that the mirror in the other direction gives to our topics:
    nothing in them would be copied."""
    denied = [settings.exclude] if settings.exclude else []
    for other in deployment.mirrors:
        opposite = (other.source, other.target) == (settings.target, settings.source)
        prefix = other.rename.partition("{topic}")[0]
        if opposite and prefix and "{source}" in prefix:
            denied.append(re.escape(prefix.format(source=other.source, target=other.target)) + ".*")
    if not denied:
        return settings.topics
    return rf"(?!(?:{'|'.join(denied)})\Z)(?:{settings.topics})"
