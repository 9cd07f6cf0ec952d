"""The metrics of transactions: those that this broker coordinates, and those that are open in the
partitions it leads.

A coordinator ends what is open after its timeout. What a partition has open for longer than that is
*late*, as Kafka's PartitionsWithLateTransactionsCount counts it (KIP-664): most likely it hangs,
and readers of committed records wait behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric

from tallymark.broker.monitoring.metric import gauge, gauges
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.transactions.transaction import NAMES, State

LATE_MS: Final = 5 * 60_000
"""Beyond ``transaction.max.timeout.ms``, as Kafka has it."""
_TURN: Final = 500


@dataclass(slots=True)
class OpenInLogs:
    """What is open in the partitions that this broker leads. ``now_ms``: the wall clock;
    ``late_ms``: how long a transaction may be open. ``behind`` and ``idle_ms``: the most of a
    topic's partitions, by topic label."""

    now_ms: int
    late_ms: int
    opened: int = 0
    late: int = 0
    behind: dict[str, int] = field(default_factory=dict[str, int])
    idle_ms: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, partition: Partition, label: str) -> None:
        """Count one partition; ``label`` is its topic's."""
        producers = partition.log.producers
        waits = partition.high_watermark - partition.last_stable_offset
        if not producers.transactions and not waits:
            return
        idle = 0
        for producer_id, _ in producers.transactions:
            entry = producers.get(producer_id)
            if entry is not None and entry.updated_ms >= 0:
                idle = max(idle, self.now_ms - entry.updated_ms)
        self.opened += len(producers.transactions)
        self.late += idle > self.late_ms
        self.behind[label] = max(self.behind.get(label, 0), waits)
        self.idle_ms[label] = max(self.idle_ms.get(label, 0), idle)


@dataclass(slots=True)
class Coordinated:
    """The transactional ids that this broker coordinates. ``oldest_ms``: when the oldest of the
    open transactions began; None without one."""

    states: Counter[str] = field(default_factory=Counter[str])
    oldest_ms: int | None = None


def open_in_logs(state: BrokerState) -> OpenInLogs:
    """Nothing counted yet."""
    return OpenInLogs(state.now_ms(), state.settings.transaction_max_timeout_ms + LATE_MS)


async def transactions(state: BrokerState, logs: OpenInLogs) -> list[Metric]:
    """All of them."""
    return [*_logs(logs), *_coordinator(state, await _coordinated(state), logs.now_ms)]


async def _coordinated(state: BrokerState) -> Coordinated:
    found = Coordinated()
    for shard in state.transaction_shards.shards():
        for name, count in shard.state.counts.items():
            found.states[NAMES[name]] += count
        async for each in in_turns(shard.state.busy, _TURN):
            if each.state is State.ONGOING:
                oldest = each.started_ms if found.oldest_ms is None else found.oldest_ms
                found.oldest_ms = min(oldest, each.started_ms)
    return found


def _logs(logs: OpenInLogs) -> Iterator[Metric]:
    yield gauge(
        "open_transactions",
        "Transactions that are open in the partitions led here, each once a partition.",
        logs.opened,
    )
    yield gauge(
        "partitions_with_late_transactions",
        "Partitions with a transaction that is open for longer than any coordinator lets it: it "
        "hangs, see 'tallymark transactions find-hanging'.",
        logs.late,
    )
    yield gauges(
        "stable_offset_lag_messages",
        "Messages that readers of committed ones cannot read yet, behind an open transaction; the "
        "most of a topic's partitions.",
        ("topic",),
        (((label,), behind) for label, behind in sorted(logs.behind.items())),
    )
    yield gauges(
        "open_transaction_idle_seconds",
        "Since the last batch of an open transaction; the longest of a topic's partitions.",
        ("topic",),
        (((label,), idle / 1000) for label, idle in sorted(logs.idle_ms.items())),
    )


def _coordinator(state: BrokerState, found: Coordinated, now_ms: int) -> Iterator[Metric]:
    yield gauges(
        "transactional_ids",
        "Transactional ids coordinated here.",
        ("state",),
        (((name,), count) for name, count in sorted(found.states.items())),
    )
    age_ms = 0 if found.oldest_ms is None else max(0, now_ms - found.oldest_ms)
    yield gauge(
        "oldest_transaction_seconds",
        "How long the oldest open transaction coordinated here is open; 0 without one.",
        age_ms / 1000,
    )
    markers = state.markers
    waiting = {} if markers is None else markers.waiting()
    yield gauges(
        "waiting_markers",
        "Markers of ended transactions that wait for a broker; -1: for a partition without a "
        "leader.",
        ("broker",),
        (((str(broker),), count) for broker, count in sorted(waiting.items())),
    )
    yield gauge(
        "given_up_markers",
        "Transactions whose markers a partition refuses, as if a newer coordinator were at work: "
        "they stay in Prepare, see 'tallymark transactions describe'.",
        0 if markers is None else markers.given_up,
    )
