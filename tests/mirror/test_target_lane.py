"""The order of what goes to one partition of the target, whatever the target says to it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.target.queue import TargetQueue
from tallymark.mirror.target.ready_batch import ReadyBatch
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.records.writer import encode_batch

A, B = frozenset({"A"}), frozenset({"A", "B"})


def ready(first: int, count: int, origin: frozenset[str] = A) -> ReadyBatch:
    records = [(None, b"%d" % n, (), 1) for n in range(first, first + count)]
    (batch,) = split_batches(encode_batch(records))
    return ReadyBatch("clicks", 0, batch, origin, lambda error, offset: None)


class Broker:
    """A log that wants a producer's sequences in a row and no batch above ``limit`` records."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.values: list[int] = []
        self.next: dict[Any, int] = {}

    def take(self, batch: ReadyBatch) -> KafkaError | None:
        if batch.count > self.limit:
            return KafkaError(CODES["MESSAGE_TOO_LARGE"])
        if self.next.setdefault(batch.identity, batch.base_sequence) != batch.base_sequence:
            return KafkaError(CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"])
        self.next[batch.identity] += batch.count
        self.values += [int(record.value or b"") for record in batch.batch.records()]
        return None


def run(queue: TargetQueue, broker: Broker, chance: random.Random) -> None:
    """Send until all is settled; answers come in the order of the requests, at any time."""
    ids = {A: (100, 0), B: (200, 0)}
    flying: list[ReadyBatch] = []
    for step in range(10_000):
        if queue.idle:
            return
        if queue.feed():
            batch = queue.pipeline.next(float(step), ids[queue.origin])
            if batch is None and queue.pipeline.needs_identity and not queue.pipeline.in_flight:
                ids[queue.origin] = (ids[queue.origin][0] + 1, 0)
            elif isinstance(batch, ReadyBatch):
                queue.pipeline.sent(batch)
                flying.append(batch)
        if flying and chance.random() < 0.4:
            answered = flying.pop(0)
            error = broker.take(answered)
            if error is None:
                queue.pipeline.acknowledged(answered)
            elif queue.pipeline.refused(answered, error, 0.0) is Verdict.SPLIT:
                queue.split(answered)
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("seed", range(40))
def test_order_holds_over_refusals_for_size_and_changes_of_origin(seed: int) -> None:
    chance = random.Random(seed)
    queue, broker, at = TargetQueue("clicks", 0), Broker(limit=chance.choice([1, 3, 8])), 0
    for _ in range(30):
        count = chance.randint(1, 9)
        queue.waiting.append(ready(at, count, chance.choice([A, A, A, B])))
        at += count
    run(queue, broker, chance)
    assert broker.values == list(range(at))


def test_what_is_abandoned_is_everything() -> None:
    queue = TargetQueue("clicks", 0)
    batches = [ready(n, 1) for n in range(9)]
    queue.waiting.extend(batches)
    assert queue.feed()
    first = queue.pipeline.next(0.0, (1, 0))
    assert first is batches[0]
    queue.pipeline.sent(first)
    assert queue.abandon() == batches
    queue.failed = KafkaError(10)
    assert not queue.feed()


def test_halves_settle_their_whole_once() -> None:
    told: list[tuple[Exception | None, int]] = []
    whole = ready(0, 5)
    whole.on_settled = lambda error, offset: told.append((error, offset))
    first, second = whole.halves()
    assert (first.count, second.count) == (2, 3)
    first.on_settled(None, 40)
    assert told == []
    second.on_settled(None, 42)
    assert told == [(None, -1)]
    error = KafkaError(CODES["MESSAGE_TOO_LARGE"])
    again = ready(0, 2)
    again.on_settled = lambda error, offset: told.append((error, offset))
    for half in again.halves():
        half.on_settled(error, -1)
    assert told == [(None, -1), (error, -1)]
