"""What may be in the log although the broker said otherwise is in doubt, and is never replaced.

A leader that answers acks=all appends, and then waits for its followers. When it steps down while
it waits, it answers NOT_LEADER_OR_FOLLOWER, and the new leader may have the batch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.batches.append_outcome import REFUSED_BEFORE_APPEND, may_be_appended
from tallymark.client.producing.batches.batch import Identity, ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline, Verdict
from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.producer import Producer
from tallymark.errors import (
    CODES,
    KafkaError,
    LocalProtocolError,
    RemoteProtocolError,
    TallymarkError,
    TimedOutError,
)
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Refuse, ScriptedBroker

UNKNOWN = [
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
    "NETWORK_EXCEPTION",
    "LEADER_NOT_AVAILABLE",
]
"""Errors after which a producer tries again, and the batch may be there."""
GAP = KafkaError(CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"])
STALE = KafkaError(CODES["INVALID_PRODUCER_EPOCH"])
BROKEN = KafkaError(CODES["NETWORK_EXCEPTION"])
INVALID = KafkaError(CODES["INVALID_RECORD"])
TOO_FEW = KafkaError(CODES["NOT_ENOUGH_REPLICAS"])
TOO_LARGE = KafkaError(CODES["MESSAGE_TOO_LARGE"])
FIRST, SECOND = (7, 0), (8, 0)


# --- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*UNKNOWN, "UNKNOWN_SERVER_ERROR", "BROKER_NOT_AVAILABLE"])
def test_what_may_follow_an_append(name: str) -> None:
    assert may_be_appended(KafkaError(CODES[name]))


def test_a_code_that_nobody_knows_and_a_bad_answer_say_nothing_of_the_log() -> None:
    assert may_be_appended(KafkaError(4711))
    assert may_be_appended(RemoteProtocolError("the answer does not decode"))
    assert may_be_appended(TimedOutError("no answer"))


def test_what_comes_before_an_append_only() -> None:
    assert not may_be_appended(TOO_FEW)
    assert not may_be_appended(INVALID)
    assert not may_be_appended(LocalProtocolError("it cannot be said, and has not left"))
    assert REFUSED_BEFORE_APPEND.isdisjoint(CODES[name] for name in UNKNOWN)
    assert CODES["NONE"] not in REFUSED_BEFORE_APPEND


# --- the pipeline -----------------------------------------------------------------------------


def batch(values: Sequence[int], deadline: float = 1000.0) -> ProducerBatch:
    made = ProducerBatch("t", 0, None, created=0.0, deadline=deadline)
    made.times = [0] * len(values)
    made.values = [b"%d" % value for value in values]
    return made


def filled(*counts: int) -> tuple[Pipeline, list[ProducerBatch]]:
    """The first batch is acknowledged, so that several may be in flight."""
    pipeline = Pipeline(True, 5, splits=True)
    batches = [batch(range(count)) for count in (1, *counts)]
    for one in batches:
        pipeline.add(one)
    pipeline.acknowledged(send(pipeline))
    return pipeline, batches[1:]


def send(pipeline: Pipeline, newest: Identity = FIRST, now: float = 0.0) -> ProducerBatch:
    found = pipeline.next(now, newest)
    assert found is not None
    pipeline.sent(found)
    return found


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_batch_that_a_leader_may_have_appended_is_not_replaced_by_another(name: str) -> None:
    """The leader appended the batch and stepped down while its followers copied it; it answered
    NOT_LEADER_OR_FOLLOWER. The batch expired before the new leader was found: failed, said the
    producer, and gave its sequences to the next batch. The new leader took that for a repetition
    and acknowledged it: its records were in no log, and claimed."""
    pipeline, (first, second) = filled(2, 2)
    first.deadline = 5.0
    assert send(pipeline) is first
    assert pipeline.refused(first, KafkaError(CODES[name]), 9.0) is Verdict.RETRY
    assert pipeline.expired(6.0) == [first]
    assert first.ambiguous, "in doubt"
    assert pipeline.next(9.0, FIRST) is None, "no other batch goes out under that identity"
    assert pipeline.needs_identity
    assert send(pipeline, SECOND, 9.0) is second
    assert (second.identity, second.base_sequence) == (SECOND, 0)


def test_a_repetition_that_is_acknowledged_ends_the_doubt() -> None:
    """Nothing is wrong then, and the partition keeps its identity."""
    pipeline, (first, second) = filled(2, 2)
    pipeline.refused(send(pipeline), KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"]), 0.0)
    assert send(pipeline) is first
    pipeline.acknowledged(first)
    assert send(pipeline) is second
    assert (second.identity, second.base_sequence) == (FIRST, 3)


def test_a_refusal_before_the_append_does_not_take_an_earlier_doubt_back() -> None:
    pipeline, (first, _) = filled(2, 2)
    pipeline.refused(send(pipeline), KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"]), 0.0)
    assert pipeline.refused(send(pipeline), TOO_FEW, 0.0) is Verdict.RETRY
    assert pipeline.refused(send(pipeline), INVALID, 0.0) is Verdict.IN_DOUBT
    assert first.ambiguous


def test_what_only_ever_met_refusals_before_the_append_has_failed() -> None:
    pipeline, (first, second) = filled(2, 2)
    first.deadline = 5.0
    pipeline.refused(send(pipeline), TOO_FEW, 9.0)
    assert pipeline.expired(6.0) == [first]
    assert not first.ambiguous
    assert send(pipeline, now=9.0) is second
    assert second.base_sequence == first.base_sequence, "its numbers are free"


def test_an_answer_that_cannot_be_read_leaves_the_batch_in_doubt() -> None:
    """The broker had appended it and answered with bytes that do not decode: failed, said we."""
    pipeline, _ = filled(2)
    assert pipeline.refused(send(pipeline), RemoteProtocolError("junk"), 0.0) is Verdict.IN_DOUBT


def test_behind_a_batch_in_doubt_what_may_be_there_keeps_its_numbers() -> None:
    """Both were appended and both answers lost. The first one expired; the second one, under a new
    identity, would have been written twice."""
    pipeline, (first, second, third) = filled(1, 1, 1)
    first.deadline = 5.0
    for one in (send(pipeline), send(pipeline)):
        pipeline.refused(one, BROKEN, 0.0)
    assert pipeline.expired(6.0) == [first]
    assert send(pipeline, SECOND, 7.0) is second
    assert (second.identity, second.base_sequence) == (FIRST, 2)
    assert pipeline.next(7.0, SECOND) is None, "the others wait for it"
    pipeline.acknowledged(second)
    assert send(pipeline, SECOND, 7.0) is third
    assert (third.identity, third.base_sequence) == (SECOND, 0)


def test_behind_a_batch_in_doubt_a_gap_proves_nothing() -> None:
    """Both requests stood in the queue of a broker that hung. The first one was given up, the
    second one refused on a new connection, since the first was not there. Then the queue was
    served: had the second been sent under a new identity, it would be there twice."""
    pipeline, (first, _) = filled(1, 1)
    first.deadline = 5.0
    for one in (send(pipeline), send(pipeline)):
        pipeline.refused(one, BROKEN, 0.0)
    pipeline.expired(6.0)
    assert pipeline.refused(send(pipeline, SECOND, 7.0), GAP, 8.0) is Verdict.IN_DOUBT
    assert pipeline.idle


def test_a_gap_at_the_first_batch_settles_those_behind_it_too() -> None:
    """The log was cut. What was in flight behind the first batch came back without an answer; it
    cannot be there without the first, and goes out under the new identity."""
    pipeline, (first, second) = filled(1, 1)
    flight = [send(pipeline), send(pipeline)]
    assert pipeline.refused(first, GAP, 0.0) is Verdict.RETRY
    assert pipeline.refused(second, BROKEN, 0.0) is Verdict.RETRY
    for place, one in enumerate(flight):
        assert send(pipeline, SECOND) is one
        assert (one.identity, one.base_sequence, one.ambiguous) == (SECOND, place, False)
        pipeline.acknowledged(one)


def test_an_old_epoch_says_nothing_of_a_batch_that_may_be_there() -> None:
    pipeline, _ = filled(1, 1)
    pipeline.refused(send(pipeline), BROKEN, 0.0)
    assert pipeline.refused(send(pipeline), STALE, 0.0) is Verdict.IN_DOUBT
    assert pipeline.needs_identity


def test_a_partition_whose_batches_are_abandoned_does_not_use_their_numbers_again() -> None:
    """The cluster gave no new producer id for a while (not allowed), then it did."""
    pipeline, (first, second) = filled(1, 1)
    pipeline.refused(send(pipeline), BROKEN, 0.0)
    assert pipeline.abandon() == [first, second]
    assert (first.ambiguous, second.ambiguous) == (True, False)
    pipeline.add(batch([9]))
    assert pipeline.next(0.0, FIRST) is None
    assert send(pipeline, SECOND).base_sequence == 0


def test_halves_of_what_may_be_there_as_a_whole_keep_its_numbers() -> None:
    """A batch met a leader that stepped down, then one that found it too large. With its own
    numbers its halves are refused where the whole is in the log, and in doubt then."""
    pipeline, (whole, behind) = filled(4, 1)
    pipeline.refused(send(pipeline), KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"]), 0.0)
    assert pipeline.refused(send(pipeline), TOO_LARGE, 0.0) is Verdict.SPLIT
    pipeline.replace(whole, whole.split())
    assert pipeline.refused(half := send(pipeline), GAP, 0.0) is Verdict.IN_DOUBT
    assert (half.identity, half.base_sequence, half.count) == (FIRST, 1, 2)
    assert pipeline.refused(half := send(pipeline), GAP, 0.0) is Verdict.IN_DOUBT
    assert (half.identity, half.base_sequence, half.count) == (FIRST, 3, 2)
    assert send(pipeline, SECOND) is behind


# --- against a broker whose leader may step down after appending -------------------------------


@dataclass
class Attempt:
    """A request on its way: what it said when it left."""

    batch: ProducerBatch
    identity: Identity
    sequence: int
    values: list[int]

    @classmethod
    def of(cls, one: ProducerBatch) -> Attempt:
        return cls(one, one.identity, one.base_sequence, [int(v or b"") for v in one.values])

    def same(self, other: Attempt) -> bool:
        mine, theirs = (self.identity, self.sequence), (other.identity, other.sequence)
        return mine == theirs and len(self.values) == len(other.values)


@dataclass
class Partition:
    """One partition: its leader's log, of which the first ``committed`` batches are with every
    follower. It checks sequences as brokers do (KIP-98); of an unknown producer it takes any."""

    log: list[Attempt] = field(default_factory=list)
    committed: int = 0

    def append(self, one: Attempt) -> KafkaError | None:
        known = [entry for entry in self.log if entry.identity == one.identity]
        if any(entry.same(one) for entry in known[-5:]):
            return None
        if known and one.sequence != known[-1].sequence + len(known[-1].values):
            return GAP
        self.log.append(one)
        return None

    def step_down(self, chance: random.Random) -> None:
        """Another leader: it has what is committed, and as much more as it had copied."""
        del self.log[chance.randint(self.committed, len(self.log)) :]
        self.committed = len(self.log)

    @property
    def values(self) -> list[int]:
        return [value for entry in self.log for value in entry.values]


class World:
    """A pipeline, its partition, and what was promised of every value."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pipeline = Pipeline(True, 5, splits=True)
        self.partition = Partition()
        self.newest: Identity = (1, 0)
        self.now = 0.0
        self.waiting: list[Attempt] = []
        """Answers that are due, oldest first."""
        self.stuck: list[Attempt] = []
        """Requests of connections that died, which the leader has yet to read."""
        self.acked: list[int] = []
        self.failed: set[int] = set()
        self.doubted: set[int] = set()
        self.numbers: dict[tuple[Identity, int], int] = {}
        """What a sequence was last used for."""

    def run(self, batches: int) -> None:
        made = 0
        for _ in range(4000):
            self.now += 1.0
            while made < batches and self.random.random() < 0.3:
                count = self.random.randint(1, 3)
                first = made * 10
                deadline = self.now + self.random.choice([5, 20, 60])
                self.pipeline.add(batch(range(first, first + count), deadline))
                made += 1
            self.expire()
            self.send()
            self.something_happens()
            if made == batches and self.pipeline.idle and not self.stuck:
                return
        raise AssertionError("it does not come to an end")

    def expire(self) -> None:
        for one in self.pipeline.expired(self.now):
            self.settle(one, Verdict.IN_DOUBT if one.ambiguous else Verdict.FAILED)

    def send(self) -> None:
        pipeline = self.pipeline
        if pipeline.needs_identity and self.newest == pipeline.identity:
            self.newest = (self.newest[0] + 1, 0)
        while (one := pipeline.next(self.now, self.newest)) is not None:
            pipeline.sent(one)
            attempt = Attempt.of(one)
            for place, value in enumerate(attempt.values):
                key = (attempt.identity, attempt.sequence + place)
                before = self.numbers.setdefault(key, value)
                assert before == value or before in self.failed, f"{key}: {before}, then {value}"
                self.numbers[key] = value
            self.waiting.append(attempt)

    def something_happens(self) -> None:
        fate = self.random.random()
        if self.stuck and fate < 0.3:
            self.partition.append(self.stuck.pop(0))  # nobody waits for the answer
        elif fate < 0.4:  # the connection dies; some requests were read, some will be
            read = self.random.randint(0, len(self.waiting))
            for one in self.waiting[:read]:
                self.partition.append(one)
            if self.random.random() < 0.5:
                self.stuck += self.waiting[read:]
            self.answer_all(BROKEN)
        elif fate < 0.55:  # the leader appends what came, and steps down before it is copied
            for one in self.waiting:
                self.partition.append(one)
            self.partition.step_down(self.random)
            self.stuck.clear()
            self.answer_all(KafkaError(CODES[self.random.choice(UNKNOWN)]))
        elif self.waiting:
            one = self.waiting.pop(0)
            if fate < 0.65:
                refusals = [INVALID, TOO_FEW, TOO_FEW, TOO_LARGE, BROKEN]
                self.answer(one, self.random.choice(refusals))
            else:
                error = self.partition.append(one)
                if error is None:
                    self.partition.committed = len(self.partition.log)
                self.answer(one, error)

    def answer_all(self, error: TallymarkError) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            self.answer(one, error)

    def answer(self, attempt: Attempt, error: TallymarkError | None) -> None:
        one = attempt.batch
        if error is None:
            self.pipeline.acknowledged(one)
            if not one.settled:
                one.settled = True
                self.acked += attempt.values
            return
        verdict = self.pipeline.refused(one, error, self.now)
        if verdict is Verdict.SPLIT:
            self.pipeline.replace(one, one.split())
        elif verdict in (Verdict.FAILED, Verdict.IN_DOUBT):
            self.settle(one, verdict)

    def settle(self, one: ProducerBatch, verdict: Verdict) -> None:
        one.settled = True
        values = {int(value or b"") for value in one.values}
        (self.doubted if verdict is Verdict.IN_DOUBT else self.failed).update(values)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_acked_is_there_once_failed_never_and_no_number_serves_two(seed: int) -> None:
    """Connections die with requests in them, leaders append and step down, batches expire, some
    are refused for good or for their size; a request may be read long after it was given up."""
    world = World(seed)
    world.run(batches=15)
    there = world.partition.values
    assert len(there) == len(set(there)), "nothing is there twice"
    assert set(world.acked) <= set(there)
    assert world.failed.isdisjoint(there)
    assert set(there) <= {*world.acked, *world.doubted}
    acked = set(world.acked)
    assert [value for value in there if value in acked] == sorted(acked), "in order"


# --- over the wire ----------------------------------------------------------------------------


class Outcomes:
    """An interceptor that keeps what became of each batch."""

    internal = False

    def __init__(self) -> None:
        self.of: dict[int, str] = {}

    def attach(self, context: ProducerContext) -> None: ...

    def on_send(self, batch: BatchTally) -> None: ...

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self.of[batch.first_sequence] = "acknowledged"

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        self.of[batch.first_sequence] = "in doubt" if in_doubt else "failed"

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...

    def on_close(self, now_ms: int) -> None: ...


@pytest.mark.parametrize("code", [6, 3, 7, 20], ids=lambda code: KafkaError(code).name)
def test_a_producer_does_not_claim_what_took_the_place_of_another_record(code: int) -> None:
    """As above, by a real producer: "first" was appended by a leader that stepped down, and
    expired. "second" was acknowledged as a repetition of it, and was nowhere."""
    outcomes = Outcomes()
    with ScriptedBroker(topics={"t": 1}) as broker:
        producer = Producer(
            bootstrap_servers=broker.address,
            batch_size=1,
            linger_ms=0,
            delivery_timeout_ms=1_500,
            request_timeout_ms=1_000,
            interceptors=[outcomes],
        )
        with producer:
            producer.send("t", b"zeroth").result(30)
            refusals = [Refuse(code, after_append=True), *[Refuse(code)] * 1000]
            broker.script(ApiKey.PRODUCE, *refusals)
            with pytest.raises(TimedOutError):
                producer.send("t", b"first").result(30)
            broker.unscript(ApiKey.PRODUCE)
            second = producer.send("t", b"second").result(30)
        assert broker.values("t") == [b"zeroth", b"first", b"second"]
        assert second.offset == 2
        assert outcomes.of == {0: "acknowledged", 1: "in doubt", 2: "acknowledged"}
        ids = [entry.header.producer_id for entry in broker.log("t").batches]
        assert ids[0] == ids[1] != ids[2]


def test_a_hang_up_after_the_append_is_in_doubt_when_time_runs_out() -> None:
    outcomes = Outcomes()
    with ScriptedBroker(topics={"t": 1}) as broker:
        producer = Producer(
            bootstrap_servers=broker.address,
            batch_size=1,
            delivery_timeout_ms=1_500,
            request_timeout_ms=1_000,
            interceptors=[outcomes],
        )
        with producer:
            broker.script(ApiKey.PRODUCE, HangUp(after_append=True), *[Refuse(19)] * 1000)
            with pytest.raises(TimedOutError):
                producer.send("t", b"first").result(30)
        assert outcomes.of == {0: "in doubt"}
