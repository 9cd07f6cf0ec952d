"""The texts for what was found, and for the settings file. Pure."""

from __future__ import annotations

from typing import Final

from tallymark.deployment import Deployment
from tallymark_audit.attach.found import ClusterFound
from tallymark_audit.model.edges import AUDIT_TOPIC

_HEAD: Final = """\
# Written by `tallymark attach`, and yours to change: the same command goes on with what stands
# here. Every setting is in docs/settings.md. Passwords are in files of their own.

"""


def found_lines(found: ClusterFound) -> list[str]:
    """A cluster in a few lines."""
    brokers, topics = len(found.brokers), found.topics
    speaks = f", speaking as Kafka {found.release}" if found.release else ""
    records = sum(topic.records for topic in topics.values())
    seen = sum(topic.looked_into for topic in topics.values())
    there = "is there" if found.has_audit_topic else "is not there yet"
    holds = f"{len(topics)} topic{'s' if len(topics) != 1 else ''}"
    holds += f", {seen} of them looked into," if seen < len(topics) else ""
    holds += f" with {records:,} record{'s' if records != 1 else ''}"
    return [
        f"{brokers} broker{'s' if brokers != 1 else ''}{speaks}"
        + (f", cluster id {found.cluster_id}" if found.cluster_id else ""),
        f"{holds}; {AUDIT_TOPIC} {there}",
    ]


def settings_text(deployment: Deployment) -> str:
    """The settings as a file: what differs from the defaults, and what a reader looks for."""
    import tomli_w

    said = deployment.model_dump(mode="json", exclude_defaults=True)
    audit = {
        "window_ms": deployment.audit.window_ms,
        "topics": deployment.audit.topics,
        **said.get("audit", {}),
    }
    brokers = [
        {**one, "brokers": [b.model_dump(include={"id", "host", "port"}) for b in cluster.brokers]}
        for one, cluster in zip(said["clusters"], deployment.clusters, strict=True)
    ]
    mirrors = said.get("mirrors", [])
    return _HEAD + tomli_w.dumps({**said, "clusters": brokers, "mirrors": mirrors, "audit": audit})
