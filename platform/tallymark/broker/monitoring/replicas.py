"""The metrics of partitions with several replicas: what is led here, and what is copied from other
leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import Metric

from tallymark.broker.metrics.counters import BrokerMetrics, FollowersNow, ReplicationMetrics
from tallymark.broker.monitoring.metric import counter, counters, gauge, gauges
from tallymark.broker.partitions.partition import Partition
from tallymark.replication.throttle import ReplicationThrottle

_ROLES: Final = ("leader", "follower")
_ISR_OUTCOMES: Final = ("shrink", "expand", "settle", "refused", "unknown")


@dataclass(slots=True)
class LedReplicas:
    """Counts of partitions with several replicas that this broker leads."""

    replicated: int = 0
    under_replicated: int = 0
    below_min_isr: int = 0

    def add(self, partition: Partition) -> None:
        """Count this one, if it has several replicas."""
        lead = partition.lead
        if lead is not None:
            self.replicated += 1
            self.under_replicated += lead.is_under_replicated
            self.below_min_isr += not lead.is_enough


def replicas(metrics: BrokerMetrics, led: LedReplicas) -> Iterator[Metric]:
    """All of them."""
    yield from _led(metrics.replication, led)
    yield from _following(metrics)
    yield from _throttled(metrics.throttles)


def _led(counts: ReplicationMetrics, led: LedReplicas) -> Iterator[Metric]:
    yield gauge(
        "replicated_partitions", "Partitions with several replicas led here.", led.replicated
    )
    yield gauge(
        "under_replicated_partitions",
        "Of these, those with a replica that is not in sync now.",
        led.under_replicated,
    )
    yield gauge(
        "below_min_isr_partitions",
        "Of these, those that refuse acks=all: too few are in sync now.",
        led.below_min_isr,
    )
    yield counter(
        "unclean_elections",
        "Elections here of a leader that may lack records; the log names the partitions.",
        counts.unclean_elections,
    )
    yield counters(
        "isr_changes",
        "Changes of ISRs that leaders here have written, or could not write; the log says why.",
        ("outcome",),
        (((outcome,), counts.isr_changes[outcome]) for outcome in _ISR_OUTCOMES),
    )
    yield counters(
        "given_up_records",
        "Committed records that this broker has cut off its logs, and whether it saved them first.",
        ("outcome",),
        (((outcome,), counts.given_up[outcome]) for outcome in ("saved", "not-saved")),
    )
    yield counter("replica_sent_bytes", "Bytes of batches sent to followers.", counts.sent_bytes)


def _following(metrics: BrokerMetrics) -> Iterator[Metric]:
    nothing = FollowersNow(0, 0, 0, Counter(), 0)
    now = nothing if metrics.following is None else metrics.following()
    yield gauges(
        "replica_fetchers",
        "Connections for copying from leaders; the log says why some are disconnected.",
        ("state",),
        ((("connected",), now.connected), (("disconnected",), now.disconnected)),
    )
    yield gauge("followed_partitions", "Partitions copied from their leaders.", now.followed)
    yield gauges(
        "replicas_set_aside",
        "Of these, those that are not copied for a while, by error; the log says why.",
        ("error",),
        (((name,), count) for name, count in sorted(now.aside.items())),
    )
    yield gauge(
        "replica_max_lag_messages",
        "Of all these, the most messages below the leader's high watermark that are not here.",
        now.max_lag,
    )


def _throttled(throttles: Mapping[str, ReplicationThrottle]) -> Iterator[Metric]:
    yield counters(
        "throttled_replication_bytes",
        "Bytes of batches that counted for a limit of replication (KIP-73): sent to followers that "
        "are held back (leader), or copied here while held back (follower).",
        ("role",),
        (((role,), throttles[role].charged if role in throttles else 0) for role in _ROLES),
    )
    yield gauges(
        "throttled_replication_rate_bytes",
        "These limits, in bytes per second, while they are set: take them off when moves are done.",
        ("role",),
        (((role,), one.rate) for role, one in throttles.items() if one.rate is not None),
    )
