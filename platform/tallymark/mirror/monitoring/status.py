"""How far a mirror has come, as the clusters know it: the mirror need not run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
from tallymark.client.core.security.deployment import connection_settings
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.clock import now_ms
from tallymark.coordination import ZooKeeper
from tallymark.deployment import Deployment
from tallymark.errors import CODES, CorruptMessageError, KafkaError
from tallymark.mirror.corruption import StoppedPartition
from tallymark.mirror.offsets.translator import REQUEST_TIMEOUT_MS
from tallymark.mirror.progress import Partition
from tallymark.mirror.settings import find_mirror
from tallymark.protocol.topic_partition import EARLIEST, LATEST

MOST_AGES: Final = 200
"""For at most so many partitions that are behind, one record is read to see since when."""


class PartitionStatus(NamedTuple):
    """``copied``: the stored offset, None before there is one. ``lag`` counts offsets that are not
    stored as copied yet; ``lag_ms`` is the age of the first of them, None where it was not read.
    ``owner`` is the consumer that copies the partition now, empty: none. ``trouble``: why it cannot
    be read there."""

    mirror: str
    topic: str
    partition: int
    copied: int | None
    log_start: int
    log_end: int
    lag: int
    lag_ms: int | None
    owner: str
    trouble: str = ""

    def row(self) -> dict[str, Any]:
        """For tables and JSON."""
        return self._asdict()


def mirror_status(deployment: Deployment, source: str, target: str) -> list[PartitionStatus]:
    """Every partition that the mirror is to copy. UserError, ConnectError, KafkaError."""
    settings = find_mirror(deployment, source, target)
    cluster = deployment.cluster(source)
    group = f"mirror-{settings.name}"
    with ExitStack() as opened:
        connection = connection_settings(cluster)
        admin = opened.enter_context(Admin(request_timeout_ms=REQUEST_TIMEOUT_MS, **connection))
        session = ZooKeeper(f"{deployment.zookeeper.connect}{cluster.root}")
        session.start(create_root=cluster.kind == "apache-kafka")
        opened.callback(session.close)
        stored, owners = _group(ZooKeeperGroups(session), group)
        topics = {name: one for name, one in admin.topics().items() if settings.copies(name)}
        wanted = [(name, part) for name, info in topics.items() for part in info.partitions]
        starts = admin.list_offsets(dict.fromkeys(wanted, EARLIEST)).check()
        ends = admin.list_offsets(dict.fromkeys(wanted, LATEST)).check()
        found: list[PartitionStatus] = []
        for at in sorted(wanted):
            first, end = starts[at].offset or 0, ends[at].offset or 0
            copied = stored.get(at)
            lag = max(0, end - max(first, copied or 0))
            owner = owners.get(at, "")
            found.append(PartitionStatus(settings.name, *at, copied, first, end, lag, None, owner))
        reader = opened.enter_context(
            SimpleConsumer(request_timeout_ms=REQUEST_TIMEOUT_MS, **connection)
        )
        return _with_ages(found, reader)


def _group(
    groups: ZooKeeperGroups, group: str
) -> tuple[dict[Partition, int], dict[Partition, str]]:
    """Stored offsets and owners; none before the mirror has run."""
    try:
        members = groups.describe_group(group).members
        owners = {at: member.member_id for member in members for at in member.partitions}
        return groups.group_offsets(group), owners
    except KafkaError as error:
        if error.code != CODES["GROUP_ID_NOT_FOUND"]:
            raise
        return {}, {}


def _with_ages(found: list[PartitionStatus], reader: SimpleConsumer) -> list[PartitionStatus]:
    now = now_ms()
    behind = [one for one in found if one.lag][:MOST_AGES]
    ages: dict[Partition, int] = {}
    damaged: dict[Partition, str] = {}
    for one in behind:
        at = max(one.log_start, one.copied or 0)
        try:
            fetched = reader.fetch(one.topic, one.partition, at, max_bytes=1, max_wait_ms=0)
            records = fetched.records()
        except CorruptMessageError as error:
            stopped = StoppedPartition(one.topic, one.partition, error.offset, error.reason)
            damaged[one.topic, one.partition] = str(stopped)
            continue
        except KafkaError:  # gone meanwhile: report the rest
            continue
        if records:
            ages[one.topic, one.partition] = max(0, now - records[0].timestamp)
    return [
        one._replace(
            lag_ms=ages.get((one.topic, one.partition)),
            trouble=damaged.get((one.topic, one.partition), ""),
        )
        for one in found
    ]
