"""Markers: one request a broker at a time, again until each partition has answered."""

from __future__ import annotations

from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.markers import DELETED, NO_LEADER, RETRY_MS, Markers, Outcome, Sent

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def outcome(name: str, *partitions: TopicPartition, producer_id: int = 7) -> Outcome:
    return Outcome(name, producer_id, 6, True, 3, 2, frozenset(partitions))


def test_each_leader_gets_its_partitions_and_the_last_answer_completes() -> None:
    markers = Markers()
    first = outcome("x", A, B)
    assert not markers.begin(first)
    requests, complete = markers.to_send({A: 1, B: 2}.__getitem__, 0)
    assert requests == {1: [Sent(first, frozenset((A,)))], 2: [Sent(first, frozenset((B,)))]}
    assert not complete
    assert markers.to_send({A: 1, B: 2}.__getitem__, 0) == ({}, []), "both are under way"
    assert markers.answered(1, requests[1], {(7, A): 0}, 5) == []
    assert markers.answered(2, requests[2], {(7, B): 0}, 5) == [first]
    assert len(markers) == 0


def test_an_outcome_without_partitions_is_complete_at_once() -> None:
    markers = Markers()
    assert markers.begin(outcome("x"))
    assert len(markers) == 0


def test_what_comes_while_a_broker_answers_goes_with_the_next_request() -> None:
    markers = Markers()
    x, y, z = outcome("x", A), outcome("y", A, producer_id=8), outcome("z", A, producer_id=9)
    markers.begin(x)
    requests, _ = markers.to_send({A: 1}.__getitem__, 0)
    markers.begin(y)
    markers.begin(z)
    assert markers.to_send({A: 1}.__getitem__, 0) == ({}, [])
    markers.answered(1, requests[1], {(7, A): 0}, 5)
    requests, _ = markers.to_send({A: 1}.__getitem__, 5)
    assert [sent.outcome for sent in requests[1]] == [y, z]


def test_a_slow_broker_does_not_hold_up_another() -> None:
    markers = Markers()
    markers.begin(outcome("x", A))
    markers.to_send({A: 1, B: 2}.__getitem__, 0)
    markers.begin(outcome("y", A, B, producer_id=8))
    requests, _ = markers.to_send({A: 1, B: 2}.__getitem__, 0)
    assert {broker: sent[0].partitions for broker, sent in requests.items()} == {2: {B}}


def test_a_request_that_failed_is_sent_to_the_leader_of_then_after_a_pause() -> None:
    markers = Markers()
    first = outcome("x", A)
    markers.begin(first)
    requests, _ = markers.to_send({A: 1}.__getitem__, 0)
    assert markers.next_ms(0) is None
    assert markers.answered(1, requests[1], {}, 10) == []
    assert markers.next_ms(10) == 10 + RETRY_MS
    assert markers.to_send({A: 2}.__getitem__, 9 + RETRY_MS) == ({}, [])
    requests, _ = markers.to_send({A: 2}.__getitem__, 10 + RETRY_MS)
    assert requests == {2: [Sent(first, frozenset((A,)))]}


def test_only_what_was_refused_is_sent_again() -> None:
    markers = Markers()
    markers.begin(outcome("x", A, B))
    requests, _ = markers.to_send({A: 1, B: 1}.__getitem__, 0)
    codes = {(7, A): 0, (7, B): CODES["NOT_LEADER_OR_FOLLOWER"]}
    markers.answered(1, requests[1], codes, 0)
    requests, _ = markers.to_send({A: 1, B: 1}.__getitem__, RETRY_MS)
    assert requests[1][0].partitions == {B}


def test_a_partition_without_a_leader_waits_and_a_deleted_one_is_done() -> None:
    markers = Markers()
    first = outcome("x", A, C)
    markers.begin(first)
    assert markers.to_send({A: NO_LEADER, C: DELETED}.__getitem__, 0) == ({}, [])
    assert markers.next_ms(0) == RETRY_MS
    assert markers.by_broker({A: NO_LEADER, C: DELETED}.__getitem__) == {NO_LEADER: 1}
    assert markers.to_send({A: DELETED}.__getitem__, RETRY_MS) == ({}, [first])


def test_a_partition_that_cannot_have_markers_is_done() -> None:
    markers = Markers()
    first = outcome("x", A)
    markers.begin(first)
    requests, _ = markers.to_send({A: 1}.__getitem__, 0)
    code = CODES["UNSUPPORTED_FOR_MESSAGE_FORMAT"]
    assert markers.answered(1, requests[1], {(7, A): code}, 0) == [first]


def test_an_outcome_that_another_coordinator_has_is_given_up() -> None:
    for name in ("INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"):
        markers = Markers()
        markers.begin(outcome("x", A, B))
        requests, _ = markers.to_send({A: 1, B: 1}.__getitem__, 0)
        assert markers.answered(1, requests[1], {(7, A): CODES[name], (7, B): 0}, 0) == []
        assert len(markers) == 0
        (given_up,) = markers.given_up.values()
        assert (given_up.partition, given_up.code) == (A, CODES[name])


def test_what_is_given_up_is_known_until_the_lead_or_the_outcome_changes() -> None:
    """It was dropped without a word: the id stayed in Prepare, and nothing said why."""
    for forget in ("lead", "outcome"):
        markers = Markers()
        old = outcome("x", A)
        markers.begin(old)
        requests, _ = markers.to_send({A: 1}.__getitem__, 0)
        markers.answered(1, requests[1], {(7, A): CODES["INVALID_PRODUCER_EPOCH"]}, 0)
        assert list(markers.given_up) == ["x"]
        if forget == "lead":
            markers.drop(lambda _: False)
        else:
            markers.begin(outcome("x", A))
        assert not markers.given_up


def test_a_late_answer_is_not_taken_for_one_to_the_next_outcome() -> None:
    """The story: the lead of the id was lost and regained, and its next transaction has the same
    partition, which has another leader now."""
    markers = Markers()
    old, new = outcome("x", A), outcome("x", A)
    markers.begin(old)
    late, _ = markers.to_send({A: 1}.__getitem__, 0)
    markers.drop(lambda each: False)
    markers.begin(new)
    requests, _ = markers.to_send({A: 2}.__getitem__, 0)
    assert markers.answered(1, late[1], {(7, A): 0}, 0) == []
    assert markers.answered(2, requests[2], {(7, A): 0}, 0) == [new]


def test_one_request_has_no_more_outcomes_than_its_bound() -> None:
    markers = Markers()
    for n in range(1_500):
        markers.begin(outcome(f"x{n}", A, producer_id=n))
    requests, _ = markers.to_send({A: 1}.__getitem__, 0)
    assert len(requests[1]) == 1_000
    done = markers.answered(1, requests[1], {(n, A): 0 for n in range(1_500)}, 0)
    assert len(done) == 1_000
    requests, _ = markers.to_send({A: 1}.__getitem__, 0)
    assert len(requests[1]) == 500
