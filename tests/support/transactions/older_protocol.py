"""A producer that does not know ``transaction.version``: it speaks the older protocol (TV1)."""

from __future__ import annotations

from tallymark.client.producing.producer import Producer


def use_the_older_protocol(producer: Producer) -> None:
    """Before ``init_transactions()``."""
    manager = producer._core.transactions
    assert manager is not None

    async def level() -> int:
        return 0

    manager._ask.level = level  # type: ignore[method-assign]
