"""A transactional id in a state of choice."""

from __future__ import annotations

from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.transaction import COMPLETE, State, Transaction

INSIDE: Final[frozenset[TopicPartition]] = frozenset((("t", 0),))
"""The partitions of its transaction, if it has one."""


def in_state(state: State) -> Transaction:
    """Producer 7 with epoch 5, which an end has raised from 4. Started at 100 ms."""
    is_idle = state is State.EMPTY or state in COMPLETE
    return Transaction(
        "id",
        7,
        5,
        60_000,
        state,
        frozenset() if is_idle else INSIDE,
        updated_ms=100,
        started_ms=-1 if is_idle else 100,
        last_epoch=4,
    )
