"""Which partitions a Fetch asks for, and what an answer says."""

from __future__ import annotations

from uuid import UUID

import pytest

from tallymark.broker.replicas.answers import is_expected, read_answer, read_offset, what_to_do
from tallymark.broker.replicas.candidates import Candidate, Candidates, longest_wait_ms
from tallymark.broker.replicas.fetch_requests import range_requests
from tallymark.broker.replicas.fetch_settings import FetchSettings, slot_of
from tallymark.broker.replicas.sessions import FollowerSession
from tallymark.broker.settings.text import parse
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    FetchResponsePartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tallymark.protocol.messages.k01_fetch import FetchResponseEpochEndOffset
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.protocol.wire.fetch import Replica
from tallymark.replication.following import Answer, Ask
from tallymark.replication.throttle import ReplicationThrottle
from tallymark.replication.truncation import EpochEnd

ASK = Ask(1, 3, 10, 2, 8, 0)
TOPIC = UUID(int=5)


def candidate(index: int, *, until_ms: int = -1, throttled: bool = False) -> Candidate:
    """``until_ms``: set aside until then; 0: a step is being done."""
    return Candidate((TOPIC, index), ASK if until_ms < 0 else None, max(0, until_ms), throttled)


def asked(session: FollowerSession) -> list[int]:
    """The partitions of the next request, and of those before."""
    session.next()
    return sorted(index for _, index in session.known)


def test_what_is_set_aside_is_left_out_and_the_leader_waits_no_longer_than_until_its_time() -> None:
    free, session = ReplicationThrottle(None, 0), FollowerSession()
    candidates = Candidates(session)
    candidates.put(candidate(0))
    assert candidates.again_ms(free, 1_000) is None
    assert longest_wait_ms(None, 1_000, FetchSettings()) == 500
    candidates.put(candidate(1, until_ms=1_200))
    candidates.put(candidate(2, until_ms=0))
    assert candidates.again_ms(free, 1_000) == 1_200
    assert longest_wait_ms(1_200, 1_000, FetchSettings()) == 200
    assert asked(session) == [0]
    assert candidates.due(1_200) == [(TOPIC, 1), (TOPIC, 2)]
    candidates.put(candidate(1))
    candidates.drop((TOPIC, 0))
    assert asked(session) == [1]
    assert list(candidates.resting) == [(TOPIC, 2)]


def test_throttled_partitions_wait_until_what_came_is_paid_for_and_others_do_not() -> None:
    throttle, session = ReplicationThrottle(100, 0), FollowerSession()
    candidates = Candidates(session)
    candidates.put(candidate(0, throttled=True))
    candidates.put(candidate(1))
    assert candidates.again_ms(throttle, 0) is None
    assert asked(session) == [0, 1]
    assert candidates.is_throttled((TOPIC, 0))
    throttle.charge(300, 0)  # at least one batch passes, however large
    assert candidates.again_ms(throttle, 500) == 2_001
    assert asked(session) == [1]
    candidates.put(candidate(0, throttled=True))
    assert asked(session) == [1], "what is looked at meanwhile waits, too"
    assert candidates.again_ms(throttle, 2_001) is None
    assert asked(session) == [0, 1]


def test_a_partition_that_is_throttled_no_more_is_asked_for_at_once() -> None:
    throttle, session = ReplicationThrottle(100, 0), FollowerSession()
    candidates = Candidates(session)
    candidates.put(candidate(0, throttled=True))
    throttle.charge(300, 0)
    candidates.again_ms(throttle, 0)
    assert not session.wants_any
    candidates.put(candidate(0))
    assert candidates.again_ms(throttle, 0) is None
    assert asked(session) == [0]


def test_records_beside_an_error_or_a_parting_are_not_looked_at() -> None:
    parted = FetchResponseEpochEndOffset(epoch=2, end_offset=9)
    each = FetchResponsePartition(diverging_epoch=parted, high_watermark=12, records=bytes(80))
    assert read_answer(each) == (Answer(0, EpochEnd(2, 9), 12, -1, None), b"")
    refused = FetchResponsePartition(error_code=6, records=bytes(80))
    assert read_answer(refused).records == b""


def test_the_first_offset_is_that_of_the_first_batch_also_of_one_that_is_cut() -> None:
    whole = FetchResponsePartition(records=(300).to_bytes(8) + bytes(60), log_start_offset=7)
    assert read_answer(whole).answer == Answer(0, None, 0, 7, 300)
    assert read_answer(FetchResponsePartition(records=b"abc")).answer.first_offset == -1
    assert read_answer(FetchResponsePartition(records=None)).answer.first_offset is None


def test_the_leaders_range_is_two_questions_in_its_epoch() -> None:
    start, end = range_requests(("t", 4), 9, Replica(7, 70), (EARLIEST, LATEST))
    assert (start.replica_id, end.replica_id) == (7, 7)
    asked = [each.topics[0].partitions[0] for each in (start, end)]
    assert [(one.partition_index, one.current_leader_epoch) for one in asked] == [(4, 9)] * 2
    assert [one.timestamp for one in asked] == [EARLIEST, LATEST]


def test_an_offset_that_is_refused_or_missing_is_an_error() -> None:
    def answer(error: int, index: int = 4) -> ListOffsetsResponse:
        one = ListOffsetsResponsePartition(partition_index=index, error_code=error, offset=33)
        return ListOffsetsResponse(topics=(ListOffsetsResponseTopic(name="t", partitions=(one,)),))

    assert read_offset(answer(0), ("t", 4)) == 33
    for response, code in ((answer(74), 74), (answer(0, index=5), CODES["INVALID_REQUEST"])):
        with pytest.raises(KafkaError) as raised:
            read_offset(response, ("t", 4))
        assert raised.value.code == code


def test_every_failure_says_what_to_do() -> None:
    assert is_expected(CODES["FENCED_LEADER_EPOCH"])
    assert not is_expected(CODES["CORRUPT_MESSAGE"])
    told = {what_to_do(code) for code in CODES.values()}
    assert len(told) == 6
    assert "verify-log" in what_to_do(CODES["CORRUPT_MESSAGE"])


def test_partitions_are_divided_among_the_connections_as_apache_kafka_does() -> None:
    four = FetchSettings(num_replica_fetchers=4)
    assert [slot_of(("orders", index), four) for index in range(5)] == [
        (31 * -1008770331 + index) % 2**31 % 4 for index in range(5)
    ]
    assert slot_of(("orders", 3), FetchSettings()) == 0


def test_the_settings_are_those_of_the_broker() -> None:
    """One default in two places would become two defaults."""
    settings = parse({"num.replica.fetchers": 3, "replica.fetch.max.bytes": 77})
    read = FetchSettings.of(settings)
    assert (read.num_replica_fetchers, read.replica_fetch_max_bytes) == (3, 77)
    assert FetchSettings.of(parse({})) == FetchSettings()
