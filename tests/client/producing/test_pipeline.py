"""Order and sequences of one partition, without a network: see the rules in pipeline.py."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.batches.batch import Identity, ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline, Verdict
from tallymark.errors import CODES, KafkaError

FIRST: Identity = (7, 0)
SECOND: Identity = (8, 0)
NOT_LEADER = KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"])
BROKEN = KafkaError(CODES["NETWORK_EXCEPTION"])
GAP = KafkaError(CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"])
INVALID = KafkaError(CODES["INVALID_RECORD"])


def batch(count: int = 1, deadline: float = 100.0) -> ProducerBatch:
    made = ProducerBatch("t", 0, None, created=0.0, deadline=deadline)
    made.times = [0] * count
    return made


def filled(*counts: int, idempotent: bool = True) -> tuple[Pipeline, list[ProducerBatch]]:
    pipeline = Pipeline(idempotent, 5)
    batches = [batch(count) for count in counts]
    for one in batches:
        pipeline.add(one)
    return pipeline, batches


def send(pipeline: Pipeline, newest: Identity = FIRST, now: float = 0.0) -> ProducerBatch:
    found = pipeline.next(now, newest)
    assert found is not None
    pipeline.sent(found)
    return found


def prove(pipeline: Pipeline) -> None:
    """Get the first batch acknowledged, so that more than one may be in flight."""
    pipeline.acknowledged(send(pipeline))


def test_nothing_leaves_without_an_identity() -> None:
    pipeline, _ = filled(1)
    assert pipeline.next(0.0, (-1, -1)) is None
    assert pipeline.next(0.0, FIRST) is not None


def test_sequences_follow_one_another() -> None:
    pipeline, batches = filled(3, 2, 4, 1)
    prove(pipeline)
    for one in batches[1:]:
        assert send(pipeline) is one
    assert [one.base_sequence for one in batches] == [0, 3, 5, 9]
    assert {one.identity for one in batches} == {FIRST}


def test_sequences_begin_again_after_the_largest() -> None:
    pipeline, batches = filled(1, 3, 1)
    prove(pipeline)
    pipeline._next_sequence = 2**31 - 2
    send(pipeline)
    send(pipeline)
    assert [one.base_sequence for one in batches[1:]] == [2**31 - 2, 1]


def test_the_first_batch_of_an_identity_is_alone() -> None:
    pipeline, batches = filled(1, 1)
    send(pipeline)
    assert pipeline.next(0.0, FIRST) is None
    pipeline.acknowledged(batches[0])
    assert pipeline.next(0.0, FIRST) is batches[1]


def test_no_more_than_the_maximum_is_in_flight() -> None:
    pipeline, _ = filled(*[1] * 10)
    prove(pipeline)
    for _ in range(5):
        send(pipeline)
    assert pipeline.next(0.0, FIRST) is None


def test_no_batch_runs_out_of_what_the_broker_remembers() -> None:
    """Five batches were appended but the connection died before the answers. Sent again, the first
    was refused by a leader that was just stepping in, the other four were recognised as
    repetitions. The first then travelled together with new batches, was refused once more while
    they were appended: five later batches, so the broker no longer recognised it, called its
    sequence out of order, and under a new identity it was written a second time."""
    pipeline, batches = filled(*[1] * 12)
    prove(pipeline)
    flight = [send(pipeline) for _ in range(5)]
    pipeline.refused(flight[0], NOT_LEADER, 0.0)
    for one in flight[1:]:
        pipeline.acknowledged(one)
    assert send(pipeline) is flight[0]
    assert pipeline.next(0.0, FIRST) is None  # batches[6] is five behind flight[0]
    pipeline.acknowledged(flight[0])
    assert send(pipeline) is batches[6]


def test_without_idempotence_one_batch_is_in_flight() -> None:
    pipeline, batches = filled(1, 1, 1, idempotent=False)
    prove(pipeline)
    send(pipeline)
    assert pipeline.next(0.0, FIRST) is None
    assert batches[1].base_sequence == -1


def test_after_a_failure_everything_comes_back_and_leaves_again_in_order() -> None:
    pipeline, batches = filled(1, 2, 3, 4)
    prove(pipeline)
    flight = [send(pipeline) for _ in range(3)]
    assert pipeline.refused(flight[0], NOT_LEADER, 1.0) is Verdict.RETRY
    assert pipeline.next(2.0, FIRST) is None  # two are still in flight
    assert pipeline.refused(flight[1], GAP, 1.0) is Verdict.RETRY
    assert pipeline.refused(flight[2], GAP, 1.0) is Verdict.RETRY
    assert not pipeline.needs_identity  # they had merely run ahead
    assert pipeline.next(0.5, FIRST) is None  # the back-off
    assert send(pipeline, now=2.0) is batches[1]
    pipeline.acknowledged(batches[1])
    assert [send(pipeline, now=2.0), send(pipeline, now=2.0)] == batches[2:]
    assert [one.base_sequence for one in batches] == [0, 1, 3, 6]


def test_a_gap_for_the_first_one_means_that_the_log_was_cut() -> None:
    pipeline, batches = filled(1, 2, 3)
    prove(pipeline)
    flight = [send(pipeline), send(pipeline)]
    for one in flight:
        assert pipeline.refused(one, GAP, 0.0) is Verdict.RETRY
    assert pipeline.needs_identity
    assert pipeline.next(0.0, FIRST) is None  # waits for a new one
    assert send(pipeline, SECOND) is batches[1]
    pipeline.acknowledged(batches[1])
    send(pipeline, SECOND)
    assert [(one.identity, one.base_sequence) for one in batches[1:]] == [(SECOND, 0), (SECOND, 2)]


def test_a_batch_refused_for_good_gives_its_numbers_to_the_next() -> None:
    pipeline, batches = filled(1, 2, 3)
    prove(pipeline)
    assert pipeline.refused(send(pipeline), INVALID, 0.0) is Verdict.FAILED
    assert send(pipeline).base_sequence == 1
    assert batches[1].base_sequence == batches[2].base_sequence


def test_behind_a_batch_refused_for_good_the_others_take_a_new_identity() -> None:
    pipeline, batches = filled(1, 2, 3, 4)
    prove(pipeline)
    flight = [send(pipeline) for _ in range(3)]
    assert pipeline.refused(flight[0], INVALID, 0.0) is Verdict.FAILED
    for one in flight[1:]:
        assert pipeline.refused(one, GAP, 0.0) is Verdict.RETRY
    assert send(pipeline, SECOND) is batches[2]
    assert batches[2].base_sequence == 0


def test_given_up_after_an_unknown_outcome_is_in_doubt() -> None:
    pipeline, _ = filled(1)
    pipeline.refused(send(pipeline), BROKEN, 0.0)
    assert pipeline.refused(send(pipeline), INVALID, 0.0) is Verdict.IN_DOUBT


def test_what_was_never_sent_expires_as_failed() -> None:
    pipeline, _ = filled()
    pipeline.add(batch(deadline=1.0))
    pipeline.add(batch(deadline=3.0))
    assert pipeline.expired(0.5) == []
    (late,) = pipeline.expired(2.0)
    assert not late.ambiguous
    assert len(pipeline.pending) == 1


def test_what_is_in_flight_expires_as_in_doubt_and_its_late_answer_is_ignored() -> None:
    pipeline, _ = filled()
    pipeline.add(batch(deadline=1.0))
    pipeline.add(batch())
    first = send(pipeline)
    (late,) = pipeline.expired(2.0)
    assert late is first
    assert late.ambiguous
    late.settled = True
    assert pipeline.expired(2.0) == []
    assert pipeline.refused(first, BROKEN, 0.0) is Verdict.OVER
    assert send(pipeline, SECOND).base_sequence == 0
    assert not pipeline.idle


def test_abandon_takes_everything() -> None:
    pipeline, batches = filled(1, 1, 1)
    prove(pipeline)
    send(pipeline)
    assert pipeline.abandon() == batches[1:]
    assert [one.ambiguous for one in batches[1:]] == [True, False]


class Leader:
    """A partition's leader that checks sequences (KIP-98), loses requests and answers, and
    sometimes loses the end of its log."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[tuple[Identity, int, int, ProducerBatch]] = []

    def append(self, one: ProducerBatch) -> KafkaError | None:
        entry = (one.identity, one.base_sequence, one.count, one)
        of_producer = [e for e in self.log if e[0] == one.identity]
        if any(e[1:3] == entry[1:3] for e in of_producer[-5:]):
            return None
        if of_producer:
            expected = of_producer[-1][1] + of_producer[-1][2]
            if one.base_sequence != expected:
                return GAP
        self.log.append(entry)
        return None


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_fails_order_is_kept_and_nothing_is_there_twice(seed: int, cuts: bool) -> None:
    """Requests and answers get lost, leaders refuse, logs are cut: what is in the log in the end
    is in order; without cuts it is complete and without duplicates."""
    leader = Leader(seed)
    chance = leader.random
    pipeline, _ = filled(*[chance.randint(1, 4) for _ in range(12)])
    newest: Identity = (1, 0)
    acknowledged: list[ProducerBatch] = []
    wire: deque[ProducerBatch] = deque()
    now = 0.0
    for _ in range(2000):
        now += 1.0
        if pipeline.needs_identity and newest == pipeline.identity:
            newest = (newest[0] + 1, 0)
        while (one := pipeline.next(now, newest)) is not None:
            pipeline.sent(one)
            wire.append(one)
        if not wire:
            if pipeline.idle:
                break
            continue
        fate = chance.random()
        if fate < 0.15:  # the connection dies: some were appended, nobody knows
            appended = chance.randint(0, len(wire))
            for index, one in enumerate(wire):
                if index < appended:
                    leader.append(one)
            for one in wire:
                pipeline.refused(one, BROKEN, now)
            wire.clear()
            if cuts and chance.random() < 0.3 and leader.log:
                del leader.log[chance.randrange(len(leader.log)) :]  # it died with the broker
            continue
        one = wire.popleft()
        error = NOT_LEADER if fate < 0.3 else leader.append(one)
        if error is None:
            pipeline.acknowledged(one)
            acknowledged.append(one)
        else:
            assert pipeline.refused(one, error, now) is Verdict.RETRY
    # Not in order: of two repetitions the second may be recognised before the first is served.
    assert sorted(one.order for one in acknowledged) == list(range(12))
    there = [entry[3].order for entry in leader.log]
    assert there == sorted(set(there))
    if not cuts:
        assert there == list(range(12))


@pytest.mark.parametrize("name", ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_other_ways_to_lose_an_identity(name: str) -> None:
    pipeline, _ = filled(1, 1)
    prove(pipeline)
    pipeline.refused(send(pipeline), KafkaError(CODES[name]), 0.0)
    assert pipeline.needs_identity


def test_a_producer_without_idempotence_has_no_identity_to_lose() -> None:
    pipeline, _ = filled(1, idempotent=False)
    assert pipeline.refused(send(pipeline), GAP, 0.0) is Verdict.FAILED


def test_halves_share_out_the_sequences_of_the_batch_they_replace() -> None:
    """What was sent behind it carries the sequences that follow, and keeps them."""
    pipeline = Pipeline(True, 5, splits=True)
    batches = [batch(count) for count in (1, 4, 2, 3)]
    for one in batches:
        one.values = [b""] * one.count
        pipeline.add(one)
    prove(pipeline)
    large, behind = send(pipeline), send(pipeline)
    assert pipeline.refused(large, KafkaError(CODES["MESSAGE_TOO_LARGE"]), 0.0) is Verdict.SPLIT
    halves = large.split()
    pipeline.replace(large, halves)
    assert pipeline.next(0.0, FIRST) is None  # until what is in flight has come back
    assert pipeline.refused(behind, GAP, 0.0) is Verdict.RETRY
    assert not pipeline.needs_identity
    left = [send(pipeline)]
    pipeline.acknowledged(left[0])
    left += [send(pipeline) for _ in range(3)]
    assert left == [*halves, behind, batches[3]]
    assert [(one.base_sequence, one.count) for one in left] == [(1, 2), (3, 2), (5, 2), (7, 3)]
    assert [one.order for one in left] == [1, 2, 3, 4]
