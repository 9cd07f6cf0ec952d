"""The timeouts of transactions that counting waits for, as their coordinators know them.

A coordinator ends a transaction when its own timeout has passed, which may be a minute, so what is
still open some time later hangs. Where no coordinator can be asked (brokers before Kafka 3.0, no
permission to DESCRIBE the transactional id, an id that is forgotten) nothing is known, and
``audit.hanging_transaction_ms`` applies. Asked in the background: counting does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final, Protocol

from tallymark.client import Results
from tallymark.client.admin.transactions.describing import TransactionFilter, TransactionList
from tallymark.client.admin.transactions.hanging import KnownTransaction
from tallymark.errors import TallymarkError
from tallymark_audit.collector.background_call import BackgroundCall

log: Final = logging.getLogger(__name__)
ASK_MS: Final = 60_000
"""A producer of which nothing was found is asked about again so much later."""


class DescribesTransactions(Protocol):
    """The part of an Admin that is used."""

    def list_transactions(self, only: TransactionFilter | None = None) -> TransactionList: ...

    def describe_transactions(self, ids: Iterable[str]) -> Results[str, KnownTransaction]: ...

    def close(self) -> None: ...


AdminOf = Callable[[], DescribesTransactions]


class TransactionTimeouts:
    """Belongs to one thread; see the module."""

    def __init__(self, admin_of: AdminOf) -> None:
        self._admin_of = admin_of
        self._aside: BackgroundCall[dict[int, int]] = BackgroundCall("timeouts of transactions")
        self._asked: dict[int, int] = {}
        self._known: dict[int, int] = {}
        """What was found, until it is asked for: not when another producer is asked about."""

    def of(self, producer: int, now: int) -> int:
        """The timeout of the producer with this id, ms; 0 while it is not known. ``now`` in ms.
        Once returned it is forgotten: the position of the partition has it from then on."""
        self._take()
        if producer in self._known:
            self._asked.pop(producer, None)
            return self._known.pop(producer)
        if now - self._asked.get(producer, now - ASK_MS) >= ASK_MS and self._aside.idle:
            lately = {one: at for one, at in self._asked.items() if now - at < ASK_MS}
            self._asked = lately | {producer: now}
            self._known = {one: ms for one, ms in self._known.items() if one in lately}
            self._aside.start(lambda: ask(self._admin_of, producer))
        return 0

    def _take(self) -> None:
        outcome = self._aside.take()
        if outcome is None:
            return
        if (error := outcome.exception()) is not None:
            log.warning("timeouts of transactions cannot be learned now: %s", error)
        else:
            self._known |= {p: ms for p, ms in outcome.result().items() if p in self._asked}


def ask(admin_of: AdminOf, producer: int) -> dict[int, int]:
    """The producer's timeout by its id, ms; empty where no coordinator says."""
    try:
        with closing(admin_of()) as admin:
            listed = admin.list_transactions(TransactionFilter(producer_ids=(producer,)))
            described = admin.describe_transactions(listed.transactions)
    except TallymarkError as error:
        log.info("the timeout of producer %d is not known: %s", producer, error)
        return {}
    found = [one.timeout_ms for one in described.done.values() if one.producer_id == producer]
    return {producer: max(found)} if found and max(found) > 0 else {}
