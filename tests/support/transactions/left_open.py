"""A transaction that its producer leaves open, as when it is killed."""

from __future__ import annotations

from collections.abc import Mapping

from tallymark import Producer
from tallymark.client.producing.transactions.machine import Phase


def leave_open(
    servers: str,
    name: str,
    topic: str,
    positions: Mapping[tuple[str, int], int] | None = None,
    *,
    timeout_ms: int = 60_000,
) -> None:
    """One record in partition 0 of ``topic``, and ``positions`` of the group ``g``."""
    with Producer(
        bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=timeout_ms
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"-1", partition=0)
        producer.send_offsets_to_transaction(positions or {}, "g")
        producer.flush(30)
        manager = producer._core.transactions
        assert manager is not None
        manager.machine.phase = Phase.FATAL  # so that closing it aborts nothing
