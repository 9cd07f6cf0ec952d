"""The topic and the producer of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from tallymark.client.core.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Cluster, Deployment
from tallymark.errors import ConnectError, TimedOutError, UserError
from tallymark.protocol.topic_partition import NAME_RULE
from tallymark.shell.command_config import read_command_config
from tallymark.shell.target import cluster_at

if TYPE_CHECKING:
    from tallymark.client import Producer

KEEP_FOR_EVER: Final = {"retention.ms": "-1"}
DELIVERY_TIMEOUT_MS: Final = 120_000
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic(topic: str) -> None:
    """Kafka's rules for names. Raises UserError."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise UserError(f"{topic!r} cannot be the name of a topic", f"use {NAME_RULE}")


class Destination(NamedTuple):
    """Where events go: what the cluster is called, and the keyword arguments of its clients."""

    name: str
    client: ConnectionSettings


def find_destination(
    deployment: Deployment, bootstrap: str | None, config: str | None, cluster: str | None
) -> Destination:
    """The cluster at ``bootstrap`` (also one that the settings do not have), the one of that name,
    or the first one of the settings; ``config`` goes before the settings' security. UserError."""
    if bootstrap and cluster:
        raise UserError(
            "--bootstrap-server and --cluster both say where the cluster is", "give one of them"
        )
    security = read_command_config(config) if config else None
    if bootstrap:
        known = cluster_at(deployment, bootstrap)
        found: ConnectionSettings = {"bootstrap_servers": bootstrap}
        if security is not None:
            found = {**security, "bootstrap_servers": bootstrap}
        elif known is not None:
            found = {**connection_settings(known), "bootstrap_servers": bootstrap}
        name = known.name if known else bootstrap
        return Destination(name, found)
    chosen = find_cluster(deployment, cluster)
    if security is None:
        return Destination(chosen.name, connection_settings(chosen))
    return Destination(chosen.name, {**security, "bootstrap_servers": chosen.bootstrap_servers})


def find_cluster(deployment: Deployment, name: str | None) -> Cluster:
    """The cluster of that name, the first one without a name. Raises UserError."""
    if name is None:
        return deployment.clusters[0]
    try:
        return deployment.cluster(name)
    except KeyError as error:
        raise UserError(str(error.args[0]), "name one of them with --cluster") from None


def create_topic(cluster: Destination, topic: str, partitions: int, backfill: bool) -> bool:
    """Create the topic unless it is there. True if it was made.

    A topic for back-filled data keeps it: by age, all of it would be deleted at once.
    """
    from tallymark.client import Admin

    with (
        _reachable(cluster),
        Admin(**cluster.client, request_timeout_ms=10_000) as admin,
    ):
        return admin.create_topic(topic, partitions, KEEP_FOR_EVER if backfill else {})


def open_producer(cluster: Destination, server: str | None, backfill: bool) -> Producer:
    """A producer whose records are audited as those of ``server`` (default: this host)."""
    from tallymark.client import Producer

    return Producer(
        **cluster.client,
        client_id="tallymark-publish",
        compression_type="lz4",
        linger_ms=20,
        batch_size=65_536,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        # When brokers are away for a while the buffer fills up; wait for them, then say so.
        max_block_ms=DELIVERY_TIMEOUT_MS,
        server=server,
        backfill=backfill,
    )


@contextmanager
def _reachable(cluster: Destination) -> Iterator[None]:
    try:
        yield
    except (ConnectError, TimedOutError) as error:
        raise UserError(
            f"cluster {cluster.name} cannot be reached: {error}",
            "start it ('tallymark up'), or name another one with --cluster",
        ) from error
