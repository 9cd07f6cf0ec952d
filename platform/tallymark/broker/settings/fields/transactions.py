"""Transactions: where they are stored, and for how long they may be open."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tallymark.broker.settings.fields.part import Positive, SettingsPart


class TransactionFields(SettingsPart):
    """``__transaction_state``, the timeouts of transactions, and when ids are forgotten."""

    transaction_state_log_num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 50
    """Partitions of ``__transaction_state``, fixed when it is created."""

    transaction_state_log_replication_factor: Annotated[int, Field(ge=1, le=32_767)] = 3
    """Replicas of each of them. While fewer brokers live the topic is not created, and producers
    find no coordinator. It has one replica while the feature level ``replication.version`` is 0."""

    transaction_state_log_min_isr: Annotated[int, Field(ge=1, le=32_767)] = 2
    """Replicas that must be in sync for a transaction to go on (``min.insync.replicas`` of the
    topic when it is created); with fewer replicas than this all of them."""

    transaction_max_timeout_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] = 900_000
    """The longest timeout that a producer may ask for (``transaction.timeout.ms``)."""

    transactional_id_expiration_ms: Positive = 604_800_000
    """A transactional id that was not used for so long is forgotten, unless its transaction is
    open. A producer that comes back with it begins anew; one that was still running gets the error
    INVALID_PRODUCER_ID_MAPPING."""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: Positive = 10_000
    """How often open transactions are looked over for some to be aborted after their timeout. A
    transaction may be open for as much longer."""

    transaction_remove_expired_transaction_cleanup_interval_ms: Positive = 3_600_000
    """How often transactional ids are looked over for some to be forgotten. An id may be kept for
    as much longer."""
