"""What the brokers say, asked once before a load: topics, where logs begin, where they end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tallymark.client import SimpleConsumer, TopicInfo
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import Cluster, Deployment
from tallymark.errors import TallymarkError, UserError
from tallymark.patterns import pattern_given
from tallymark.protocol.schema import ZERO_UUID
from tallymark_audit.model.edges import is_audited
from tallymark_spark_jobs.lake.table import PartitionKey
from tallymark_spark_jobs.load.planning import LogState

TIMEOUT_MS = 10_000
"""How long a cluster has to answer before it counts as unreachable."""


def topics_of(
    deployment: Deployment, cluster: Cluster, wanted: str | None, since: int | None = None
) -> dict[str, list[LogState]]:
    """The cluster's topics that the settings load and ``wanted`` (a regular expression) names, with
    the bounds of each partition. A topic may be read up to the last stable offset, where the first
    open transaction begins. ``since`` (ms): where partitions begin that no table knows.

    UserError: the cluster cannot be reached."""
    fits = chooser(deployment, wanted)
    try:
        with SimpleConsumer(
            **connection_settings(cluster),
            client_id="tallymark-load",
            request_timeout_ms=TIMEOUT_MS,
            isolation="read_committed",
        ) as consumer:
            there = {name: info for name, info in consumer.topics().items() if fits(name)}
            return {
                name: list(_states(consumer, info, cluster, since))
                for name, info in sorted(there.items())
            }
    except UserError:
        raise
    except (TallymarkError, OSError) as error:
        raise UserError(
            f"cluster {cluster.name} cannot be read: {error}", "see that its brokers run"
        ) from error


def chooser(deployment: Deployment, wanted: str | None) -> Callable[[str], bool]:
    """Whether a topic is loaded. UserError: ``wanted`` is not a regular expression."""
    pattern = pattern_given("--topic", wanted or ".*")
    given = re.compile(deployment.lake.topics if deployment.lake else ".*")
    audited = deployment.audit.topics
    return lambda name: bool(
        pattern.fullmatch(name) and given.fullmatch(name) and is_audited(name, audited)
    )


def _states(
    consumer: SimpleConsumer, topic: TopicInfo, cluster: Cluster, since: int | None
) -> Iterable[LogState]:
    name = topic.name
    first, last = consumer.start_offsets(name), consumer.end_offsets(name)
    topic_id = "" if topic.topic_id == ZERO_UUID else str(topic.topic_id)
    for partition in topic.partitions:
        if partition not in first or partition not in last:
            raise UserError(
                f"cluster {cluster.name} does not say where {name}-{partition} begins and ends",
                "see that its partitions have leaders",
            )
        begin = None
        if since is not None:
            found = consumer.offset_for_time(name, partition, since)
            begin = last[partition] if found is None else found
        yield LogState(
            PartitionKey(consumer.cluster_id or cluster.name, topic_id, name, partition),
            first[partition],
            last[partition],
            consumer.leader_epoch(name, partition),
            begin,
        )
