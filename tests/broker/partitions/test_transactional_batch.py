"""What a producer is answered when the coordinator does not know its transaction."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tallymark.broker.partitions.transactional_batch import TransactionalBatch
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.batch import encode_batch


class Answering:
    """A verifier that answers each question at once, with one code."""

    def __init__(self, code: int) -> None:
        self.code = code

    def begin(self, partition: Any, transaction: Any, sequence: int, turn: Any) -> None:
        turn(self.code)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (CODES["CONCURRENT_TRANSACTIONS"], "the transaction before is still being ended"),
        (CODES["TRANSACTION_ABORTABLE"], "no transaction of it is open in this partition"),
        (CODES["NOT_COORDINATOR"], "the coordinator answered NOT_COORDINATOR"),
        (9_999, "the coordinator answered ERROR_9999"),
    ],
)
def test_each_code_of_a_coordinator_is_an_answer(code: int, why: str) -> None:
    """One of a newer release was looked up in our table, in a callback: the producer got no answer
    at all."""
    records = bytearray(
        encode_batch([(None, b"x", (), 0)], producer_id=7, producer_epoch=0, transactional=True)
    )
    batch = TransactionalBatch(cast(Any, "t-0"), records, 0, -1, cast(Any, None))

    async def append() -> None:
        verifier = cast(Any, Answering(code))
        with pytest.raises(KafkaError, match=f"t-0: 'id': {why}") as refused:
            batch.append(verifier, "id", lambda found: found, adds=True)
        assert refused.value.code == code

    asyncio.run(append())
