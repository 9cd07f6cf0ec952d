"""The requests of a transactional producer, and what is decided for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.transaction import NONE, Transaction

CONCURRENT: Final = CODES["CONCURRENT_TRANSACTIONS"]
FENCED: Final = CODES["PRODUCER_FENCED"]
INVALID_STATE: Final = CODES["INVALID_TXN_STATE"]
UNKNOWN_ID: Final = CODES["INVALID_PRODUCER_ID_MAPPING"]


@dataclass(frozen=True, slots=True)
class Initialise:
    """InitProducerId. ``producer_id`` and ``producer_epoch`` are the client's present ones
    (KIP-360), or -1."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NONE
    producer_epoch: int = NONE


@dataclass(frozen=True, slots=True)
class Add:
    """AddPartitionsToTxn, AddOffsetsToTxn, or a Produce that adds its partitions by itself.
    ``version`` is the level of ``transaction.version`` that the client follows."""

    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    version: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn."""

    producer_id: int
    producer_epoch: int
    commit: bool
    version: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Append ``after``, if it is set, then answer; without it answer only.

    The answer leaves when everything that the decision was made from is committed.
    """

    error: int = 0
    after: Transaction | None = None
    producer_id: int = NONE
    """For the answer: what the client uses from now on, or -1."""
    producer_epoch: int = NONE
    needs_producer_id: bool = False
    """Nothing is decided: ask again with a new producer id."""


ASK_WITH_ID: Final = Decision(needs_producer_id=True)
"""The epochs are used up, and no new producer id was given."""


def refused(error: int) -> Decision:
    """Nothing is written, and the answer is ``error``."""
    return Decision(error)
