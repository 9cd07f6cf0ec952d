"""The order of one partition's batches inside transactions, without a network."""

from __future__ import annotations

from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity, ProducerBatch
from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.client.producing.transactions.pipeline import TransactionalPipeline
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.batch import TRANSACTIONAL

FIRST: Identity = (7, 0)
NEXT: Identity = (7, 1)


class Gate:
    """Whether the partition is in the transaction."""

    def __init__(self) -> None:
        self.open = True
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.open


def batch() -> ProducerBatch:
    made = ProducerBatch("t", 0, None, created=0.0, deadline=100.0)
    made.times = [0]
    return made


def filled(count: int) -> tuple[TransactionalPipeline, Gate, list[ProducerBatch]]:
    gate = Gate()
    pipeline = TransactionalPipeline(5, gate)
    batches = [batch() for _ in range(count)]
    for one in batches:
        pipeline.add(one)
    return pipeline, gate, batches


def send(pipeline: TransactionalPipeline, newest: Identity = FIRST) -> ProducerBatch:
    found = pipeline.next(0.0, newest)
    assert found is not None
    pipeline.sent(found)
    return found


def test_a_batch_waits_until_its_partition_is_in_the_transaction() -> None:
    pipeline, gate, (one,) = filled(1)
    gate.open = False
    assert pipeline.next(0.0, FIRST) is None
    gate.open = True
    assert send(pipeline) is one
    assert one.attributes == TRANSACTIONAL


def test_a_partition_without_batches_is_not_added() -> None:
    """Asking adds it: every transaction would end in all partitions."""
    pipeline, gate, _ = filled(0)
    assert pipeline.next(0.0, FIRST) is None
    assert gate.asked == 0


def test_nothing_leaves_and_nothing_is_added_without_an_identity() -> None:
    pipeline, gate, _ = filled(1)
    assert pipeline.next(0.0, NO_IDENTITY) is None
    assert gate.asked == 0


def test_the_epoch_of_the_next_transaction_begins_its_numbers_at_0() -> None:
    pipeline, _, (one, two) = filled(2)
    pipeline.acknowledged(send(pipeline))
    assert send(pipeline, NEXT) is two
    assert (one.identity, one.base_sequence) == (FIRST, 0)
    assert (two.identity, two.base_sequence) == (NEXT, 0)


def test_an_epoch_that_stays_goes_on_with_its_numbers() -> None:
    """Before transaction.version 2 the next transaction has the same epoch."""
    pipeline, _, (_, two) = filled(2)
    pipeline.acknowledged(send(pipeline))
    assert send(pipeline) is two
    assert (two.identity, two.base_sequence) == (FIRST, 1)


def test_a_newer_epoch_waits_for_what_is_under_way() -> None:
    """Under the epoch before: a batch of it that comes back must be sent again under its own."""
    pipeline, _, (one, _) = filled(2)
    send(pipeline)
    assert pipeline.next(0.0, NEXT) is None
    pipeline.refused(one, KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"]), 0.0)
    assert send(pipeline, FIRST) is one
    assert (one.identity, one.base_sequence) == (FIRST, 0)


def test_a_partition_that_lost_its_producer_gets_no_other() -> None:
    """Its transaction is lost: what was acknowledged in it would be in no transaction."""
    pipeline, _, (_, two) = filled(2)
    pipeline.acknowledged(send(pipeline))
    assert send(pipeline) is two
    gap = KafkaError(CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"])
    assert pipeline.refused(two, gap, 0.0) is not Verdict.RETRY
    assert pipeline.next(0.0, FIRST) is None
