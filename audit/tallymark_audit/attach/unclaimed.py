"""What will be UNCLAIMED until the producers are audited, and the lines that end it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.deployment import Deployment
from tallymark_audit.attach.found import ClusterFound, TopicFound
from tallymark_audit.model.edges import AUDIT_TOPIC, is_audited
from tallymark_audit.reporters.effective_settings import DEFAULT_WINDOW_MS

_SHOWN: Final = 10


def unclaimed_lines(deployment: Deployment, found: ClusterFound, now_ms: int) -> list[str]:
    """One line for each topic of the first cluster whose newest records have no stamp, the busiest
    first, below one that says what that means."""
    topics = {n: t for n, t in found.topics.items() if is_audited(n, deployment.audit.topics)}
    bare = {n: t for n, t in topics.items() if t.records and t.stamped < max(t.looked_at, 1)}
    stamped = {n: t for n, t in topics.items() if t.looked_at and t.stamped == t.looked_at}
    others = sum(topic.readable and not topic.looked_into for topic in topics.values())
    lines: list[str] = []
    if bare:
        lines.append(
            f"UNCLAIMED at producer-to-{found.name} until their producers are audited, and for "
            "good what they have written before:"
        )
        order = sorted(bare, key=lambda n: (-bare[n].written_at, n))
        lines += [f"  {name}: {_written(bare[name], now_ms)}" for name in order[:_SHOWN]]
        if len(order) > _SHOWN:
            lines.append(f"  and {_topics(len(order) - _SHOWN)}")
    if others:
        lines.append(
            f"not looked into, so not named here: {_topics(others)} (--topics chooses which are)"
        )
    if stamped:
        lines.append(f"audited already: {_servers(stamped)}")
    if not bare and not stamped and not others:
        lines.append(f"nothing is UNCLAIMED at producer-to-{found.name} yet: no topic has records")
    for mirror in deployment.mirrors:
        if bare:
            lines.append(
                f"at {mirror.name} records without a stamp are compared by their net number only"
            )
    return lines


def application_lines(deployment: Deployment) -> list[str]:
    """The two lines for an application that publishes to the first cluster."""
    window = deployment.audit.window_ms
    other = f", window_ms={window}" if window != DEFAULT_WINDOW_MS else ""
    wrapped = f"audited(confluent_kafka.Producer(config), config{other})"
    wrapped += f"  # or audited(kafka.KafkaProducer(...){other})"
    secured = deployment.clusters[0].security.security_protocol != "PLAINTEXT"
    rights = [f"its user needs Write on {AUDIT_TOPIC}"] if secured else []
    return [
        "in an application that publishes there, with the package tallymark installed:",
        "  from tallymark_audit import audited",
        f"  producer = {wrapped}",
        *rights,
    ]


def _topics(number: int) -> str:
    return f"{number} more topic{'s' if number != 1 else ''}"


def _written(topic: TopicFound, now_ms: int) -> str:
    count = f"{topic.records:,} record{'s' if topic.records != 1 else ''} in {topic.partitions} "
    parts = [count + f"partition{'s' if topic.partitions != 1 else ''}"]
    if topic.written_at >= 0:
        parts.append(f"the newest {_ago(now_ms - topic.written_at)}")
    if topic.producers:
        parts.append(f"{topic.producers} idempotent producer{'s' if topic.producers != 1 else ''}")
    if topic.stamped:
        parts.append(f"a part is stamped by {', '.join(sorted(topic.servers))}")
    return ", ".join(parts)


def _servers(topics: Mapping[str, TopicFound]) -> str:
    names = sorted(topics)
    servers = sorted({server for topic in topics.values() for server in topic.servers})
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} (by {', '.join(servers[:_SHOWN])})"


def _ago(ms: int) -> str:
    """``3 s old``; a clock that is ahead is no age."""
    seconds = max(0, ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} old"
    return f"{seconds} s old"
