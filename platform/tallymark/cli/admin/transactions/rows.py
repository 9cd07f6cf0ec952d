"""Transactions as rows of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tallymark.client.admin.records import ActiveProducer
from tallymark.client.admin.transactions.describing import TransactionListing
from tallymark.client.admin.transactions.hanging import (
    ONGOING,
    PREPARED,
    Judged,
    KnownTransaction,
)
from tallymark.protocol.topic_partition import TopicPartition

LISTED: Final = {
    "transactional id": "TRANSACTIONAL-ID",
    "state": "STATE",
    "producer id": "PRODUCER-ID",
    "coordinator": "COORDINATOR",
}
DESCRIBED: Final = LISTED | {
    "producer epoch": "EPOCH",
    "timeout ms": "TIMEOUT-MS",
    "open seconds": "OPEN-SECONDS",
    "partition": "PARTITION",
    "first offset": "FIRST-OFFSET",
    "there": "THERE",
}
PRODUCERS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "producer id": "PRODUCER-ID",
    "producer epoch": "EPOCH",
    "coordinator epoch": "COORDINATOR-EPOCH",
    "last sequence": "LAST-SEQUENCE",
    "last timestamp": "LAST-TIMESTAMP",
    "first offset": "TRANSACTION-FIRST-OFFSET",
}
OPEN: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "first offset": "FIRST-OFFSET",
    "producer id": "PRODUCER-ID",
    "producer epoch": "EPOCH",
    "idle seconds": "IDLE-SECONDS",
    "transactional id": "TRANSACTIONAL-ID",
    "verdict": "VERDICT",
    "why": "WHY",
}


def listed(one: TransactionListing) -> dict[str, Any]:
    """A transactional id."""
    return {
        "transactional id": one.transactional_id,
        "state": one.state,
        "producer id": one.producer_id,
        "coordinator": one.coordinator if one.coordinator >= 0 else None,
    }


def described(
    known: KnownTransaction,
    producers: Iterable[tuple[TopicPartition, tuple[ActiveProducer, ...] | None]],
    now_ms: int,
) -> list[dict[str, Any]]:
    """A row for each partition of its transaction, or one without. ``producers``: of each partition
    those that it remembers, None where it did not say."""
    head = {
        "transactional id": known.transactional_id,
        "state": known.state,
        "producer id": known.producer_id,
        "coordinator": known.coordinator if known.coordinator >= 0 else None,
        "producer epoch": known.producer_epoch,
        "timeout ms": known.timeout_ms,
        "started": known.started_ms if known.started_ms >= 0 else None,
        "open seconds": seconds_since(known.started_ms, now_ms) if _is_open(known) else None,
    }
    rows = [
        head | {"partition": f"{topic}-{index}"} | _there(known, there)
        for (topic, index), there in producers
    ]
    return rows or [head]


def _there(known: KnownTransaction, there: tuple[ActiveProducer, ...] | None) -> dict[str, Any]:
    """What one of its partitions says."""
    if there is None:
        return {"there": "unknown: its leader does not answer"}
    one = next((each for each in there if each.producer_id == known.producer_id), None)
    if one is not None and one.producer_epoch > known.producer_epoch:
        # The coordinator has given this marker up: a newer one should be at work.
        return _open_at(one) | {
            "there": f"refuses its marker: epoch {one.producer_epoch} has written there"
        }
    if one is None or one.transaction_start < 0:
        is_over = known.state in PREPARED
        return {"there": "has its marker, or has no record of it" if is_over else "no record yet"}
    return _open_at(one) | {"there": "open" if known.state == ONGOING else "waits for its marker"}


def _open_at(one: ActiveProducer) -> dict[str, Any]:
    return {"first offset": one.transaction_start if one.transaction_start >= 0 else None}


def _is_open(known: KnownTransaction) -> bool:
    return known.started_ms >= 0 and (known.state == ONGOING or known.state in PREPARED)


def producer(at: TopicPartition, one: ActiveProducer) -> dict[str, Any]:
    """A producer that a partition remembers."""
    return {
        "topic": at[0],
        "partition": at[1],
        "producer id": one.producer_id,
        "producer epoch": one.producer_epoch,
        "coordinator epoch": one.coordinator_epoch if one.coordinator_epoch >= 0 else None,
        "last sequence": one.last_sequence if one.last_sequence >= 0 else None,
        "last timestamp": one.last_timestamp if one.last_timestamp >= 0 else None,
        "first offset": one.transaction_start if one.transaction_start >= 0 else None,
    }


def opened(one: Judged, now_ms: int) -> dict[str, Any]:
    """A transaction that is open in a partition. It was idle since the producer's last batch."""
    return {
        "topic": one.open.partition[0],
        "partition": one.open.partition[1],
        "first offset": one.open.start_offset,
        "producer id": one.open.producer_id,
        "producer epoch": one.open.producer_epoch,
        "coordinator epoch": one.open.coordinator_epoch
        if one.open.coordinator_epoch >= 0
        else None,
        "last timestamp": one.open.last_timestamp if one.open.last_timestamp >= 0 else None,
        "idle seconds": seconds_since(one.open.last_timestamp, now_ms),
        "transactional id": one.known.transactional_id if one.known else None,
        "verdict": one.verdict.value,
        "why": one.why,
    }


def seconds_since(then_ms: int, now_ms: int) -> int | None:
    """None where ``then_ms`` is not known (-1)."""
    return max(0, now_ms - then_ms) // 1000 if then_ms >= 0 else None
