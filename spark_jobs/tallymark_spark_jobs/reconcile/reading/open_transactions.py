"""Whose the open transactions are at which a look stops: for the reader of its report, who has to
find the application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from tallymark.client import Admin, FetchSpec, SimpleConsumer
from tallymark.client.admin.transactions.describing import TransactionFilter
from tallymark.errors import KafkaError, TallymarkError

log: Final = logging.getLogger(__name__)
_BYTES: Final = 64 * 1024
_NAME: Final = 100
"""Characters of a transactional id in a report: applications choose it."""


class OpenAt(NamedTuple):
    """A transaction that is open begins at ``offset`` of a log: what stands there and behind it was
    not read, also what other producers sent. ``producer``: its id, -1 where it could not be read;
    ``transactional_id``: "" where no coordinator says it."""

    cluster: str
    topic: str
    partition: int
    offset: int
    producer: int = -1
    transactional_id: str = ""

    @property
    def whose(self) -> str:
        """For people."""
        if self.producer < 0:
            return "a transaction"
        name = self.transactional_id
        known = f" (transactional id {name[:_NAME]!r})" if name else ""
        return f"a transaction of producer {self.producer}{known}"


def named(
    found: Sequence[OpenAt], uncommitted: SimpleConsumer, admin_of: Callable[[], Admin]
) -> list[OpenAt]:
    """With what can be learned of each, of one cluster. ``uncommitted`` reads what is not committed
    yet: the batch at the offset names the producer. What cannot be asked stays unknown."""
    if not found:
        return []
    try:
        read = uncommitted.multifetch(
            [FetchSpec(one.topic, one.partition, one.offset) for one in found],
            max_bytes=_BYTES * len(found),
            max_wait_ms=0,
        )
        producers = [
            -1
            if isinstance(each, KafkaError)
            else next((batch.header.producer_id for batch in each.batches), -1)
            for each in read
        ]
    except TallymarkError as error:
        log.warning("the producers of open transactions are not known: %s", error)
        return list(found)
    names = _transactional_ids({each for each in producers if each >= 0}, admin_of)
    return [
        one._replace(producer=producer, transactional_id=names.get(producer, ""))
        for one, producer in zip(found, producers, strict=True)
    ]


def _transactional_ids(producers: Iterable[int], admin_of: Callable[[], Admin]) -> dict[int, str]:
    """By producer id, those that we may DESCRIBE."""
    wanted = tuple(sorted(producers))
    if not wanted:
        return {}
    try:
        with closing(admin_of()) as admin:
            listed = admin.list_transactions(TransactionFilter(producer_ids=wanted))
    except TallymarkError as error:
        log.info("the transactional ids of producers %s are not known: %s", wanted, error)
        return {}
    return {one.producer_id: name for name, one in listed.transactions.items()}
