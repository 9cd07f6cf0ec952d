"""What is to be done about the clusters that were found: settings, refusals, warnings. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    ClusterSecurity,
    Deployment,
    Mirror,
    RegistrySettings,
    ZooKeeperSettings,
)
from tallymark.errors import UserError
from tallymark.untrusted import command
from tallymark_audit.attach.found import LOG_APPEND_TIME, ClusterFound
from tallymark_audit.attach.request import AttachRequest, ClusterRequest
from tallymark_audit.model.edges import AUDIT_TOPIC, is_audited

DATA: Final = Path(".tallymark")
REPLICAS: Final = 3
"""Of the audit topic, where there are as many brokers."""
SAME: Final = "{topic}"
"""What copies of topics are called that keep the name."""
_NAMED: Final = 5
"""Topics that a line names one by one."""


@dataclass(frozen=True, slots=True)
class TopicToMake:
    """The audit topic on one cluster."""

    cluster: str
    replicas: int


@dataclass(frozen=True, slots=True)
class AttachPlan:
    """``warnings`` are lines for a person."""

    deployment: Deployment
    to_make: tuple[TopicToMake, ...] = ()
    warnings: tuple[str, ...] = ()


def settings_of(request: AttachRequest, found: Sequence[ClusterFound]) -> Deployment:
    """The settings for these clusters, in the order of ``request``: nothing of them is ours, so
    only collectors and dashboards are started. UserError: an option has a value that cannot be."""
    try:
        return _settings_of(request, found)
    except ValidationError as error:  # --rename is free text
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(f"these settings cannot be: {why}", "mend the option") from error


def _settings_of(request: AttachRequest, found: Sequence[ClusterFound]) -> Deployment:
    first = found[0]
    audit: dict[str, Any] = {}
    if request.window_ms is not None:
        audit["window_ms"] = request.window_ms
    if request.topics:
        audit["topics"] = request.topics
    return Deployment(
        name=request.upstream.name,
        data_dir=(request.data_dir or DATA).absolute(),
        zookeeper=ZooKeeperSettings(embedded=False),
        registry=RegistrySettings(embedded=False),
        clusters=tuple(_cluster(*both) for both in zip(request.clusters, found, strict=True)),
        mirrors=tuple(_mirror(first, one, request) for one in found[1:]),
        audit=AuditSettings(**audit),
    )


def make_attach_plan(deployment: Deployment, found: Sequence[ClusterFound]) -> AttachPlan:
    """What is to be done for the audit of ``deployment`` at the clusters that were found.

    Raises UserError for what makes an audit impossible.
    """
    _refuse_the_same(found)
    for cluster in found:
        _refuse(cluster, deployment)
    to_make = tuple(
        TopicToMake(one.name, max(1, min(REPLICAS, len(one.brokers))))
        for one in found
        if not one.has_audit_topic
    )
    warnings = [line for one in found for line in _warnings(one, deployment.audit.topics)]
    by_name = {one.name: one for one in found}
    for mirror in deployment.mirrors:
        source, target = by_name[mirror.source], by_name[mirror.target]
        warnings += _not_copied(mirror, source, target, deployment.audit.topics)
    return AttachPlan(deployment, to_make, tuple(warnings))


def _cluster(request: ClusterRequest, found: ClusterFound) -> Cluster:
    return Cluster(
        name=request.name,
        kind="apache-kafka",
        embedded=False,
        brokers=tuple(BrokerAddress(id=b.id, host=b.host, port=b.port) for b in found.brokers),
        security=request.security or ClusterSecurity(),
    )


def _mirror(source: ClusterFound, target: ClusterFound, request: AttachRequest) -> Mirror:
    """The hop. Where some topics are copied and others are not, the others are left out: they may
    not be meant to be copied, and then they would be waited for without end."""
    pattern = request.topics or ".*"
    rename = request.rename or usual_rename(source, target, pattern)
    mirror = Mirror(source=source.name, target=target.name, rename=rename, embedded=False)
    audited = [name for name in sorted(source.topics) if is_audited(name, pattern)]
    there = copied_topics(mirror, audited, target)
    missing = [name for name in audited if name not in there]
    exclude = "|".join(map(re.escape, missing)) if there else ""
    return mirror.model_copy(update={"exclude": exclude})


def _refuse_the_same(found: Sequence[ClusterFound]) -> None:
    by_id: dict[str, str] = {}
    for one in found:
        other = by_id.setdefault(one.cluster_id, one.name) if one.cluster_id else one.name
        if other != one.name:
            raise UserError(
                f"{other} and {one.name} are the same cluster (id {one.cluster_id})",
                "--downstream names another one, into which the first is copied",
            )


def _refuse(cluster: ClusterFound, deployment: Deployment) -> None:
    away = [one for one in cluster.brokers if one.refusal]
    if away:
        one = away[0]
        more = f" (and {len(away) - 1} more of its brokers)" if len(away) > 1 else ""
        raise UserError(
            f"{cluster.name} says that its broker {one.id} is at {one.host}:{one.port}, which "
            f"cannot be used from here{more}: {one.refusal}",
            "see advertised.listeners of that broker, and whether its name is known here",
        )
    if cluster.refusals:
        raise UserError(
            f"the audit may not work on {cluster.name}: {'; '.join(cluster.refusals)}",
            f"it needs Describe, DescribeConfigs and Read on what is audited and on {AUDIT_TOPIC}, "
            f"and Read on the group tallymark-audit-{cluster.name}",
        )
    if not cluster.has_audit_topic and cluster.creation:
        kept = deployment.audit.retention_ms
        raise UserError(
            f"{cluster.name} has no topic {AUDIT_TOPIC}, and it may not be made: "
            f"{cluster.creation}",
            "let a user with the right to create topics make it, with one partition, "
            "cleanup.policy=delete and "
            f"retention.ms={kept}; or give Create on it to the user of this command",
        )


def _warnings(cluster: ClusterFound, pattern: str) -> list[str]:
    audited = {n: topic for n, topic in cluster.topics.items() if is_audited(n, pattern)}
    broker_time = [n for n, t in audited.items() if t.timestamp_type == LOG_APPEND_TIME]
    unreadable = [n for n, t in audited.items() if not t.readable]
    unknown = [n for n, t in audited.items() if t.readable and not t.timestamp_type]
    lines: list[str] = []
    if not audited:
        lines.append(f"{cluster.name} has no topic that {pattern!r} matches yet")
    if broker_time:
        lines.append(
            f"{cluster.name}: {some(broker_time)} message.timestamp.type=LogAppendTime: the "
            "broker's time replaces the producer's, so a message near the end of a window is "
            "claimed in one and counted in the next, LOSS here and UNCLAIMED there, and two "
            "clusters count it in different ones; set it to CreateTime: kafka-configs or "
            + command(
                "tallymark topics config",
                broker_time[0],
                set="message.timestamp.type=CreateTime",
            )
        )
    if unreadable:
        lines.append(
            f"{cluster.name}: {some(unreadable)} no right to be read, so nothing is known there: "
            "give Read on it, or leave it out with --topics"
        )
    if unknown:
        lines.append(
            f"{cluster.name}: {some(unknown)} settings that we may not read, so whether "
            "message.timestamp.type is LogAppendTime (the broker's time, by which windows differ) "
            "is not known: give DescribeConfigs on it"
        )
    return lines


def _not_copied(
    mirror: Mirror, source: ClusterFound, target: ClusterFound, pattern: str
) -> list[str]:
    audited = [name for name in sorted(source.topics) if is_audited(name, pattern)]
    left_out = [name for name in audited if not mirror.copies(name)]
    there = copied_topics(mirror, audited, target)
    waiting = [n for n in audited if mirror.copies(n) and n not in there]
    lines: list[str] = []
    if left_out:
        lines.append(
            f"{mirror.name}: {some(left_out)} no copy on {mirror.target}, and is left out of this "
            "hop (exclude of [[mirrors]] in the settings)"
        )
    if waiting:
        lines.append(
            f"{mirror.name}: {some(waiting)} no copy called "
            f"{mirror.target_topic(waiting[0])} on {mirror.target} yet, and is waited for; "
            "if copies have other names there: --rename, as in --rename 'west.{topic}'"
        )
    return lines


def some(names: Iterable[str]) -> str:
    """``clicks, orders and 3 more topics have``, ``clicks has``."""
    every = sorted(names)
    if len(every) == 1:
        return f"{every[0]} has"
    shown, more = every[:_NAMED], len(every) - _NAMED
    if more > 0:
        return f"{', '.join(shown)} and {more} more topics have"
    return f"{', '.join(shown[:-1])} and {shown[-1]} have"


def usual_rename(source: ClusterFound, target: ClusterFound, pattern: str) -> str:
    """How the copies that are there are named: as at the source, or behind a prefix and a dot as
    MirrorMaker 2 does (its DefaultReplicationPolicy); the one that fits more topics."""
    wanted = {name for name in source.topics if is_audited(name, pattern)}
    fits = Counter({SAME: len(wanted & target.topics.keys())})
    for name in target.topics:
        for at in (i for i, letter in enumerate(name) if letter == "." and i):
            if name[at + 1 :] in wanted:
                fits[name[: at + 1] + SAME] += 1
    best, count = fits.most_common(1)[0]
    return best if count > fits[SAME] else SAME


def copied_topics(mirror: Mirror, names: Iterable[str], target: ClusterFound) -> frozenset[str]:
    """Those of the source's topics of which the target has a copy."""
    return frozenset(name for name in names if mirror.target_topic(name) in target.topics)
