"""Which partitions a broker coordinates: messages may come late, and the leader epoch decides."""

from __future__ import annotations

import asyncio
import errno

import pytest
from replicated_groups import ReplicatedGroups, commit, fetch, fetched
from replicated_shard import run

from tallymark.broker.coordinators import shards as module
from tallymark.broker.coordinators.refusals import refusal_of
from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.records import CommittedOffset, OffsetKey, encode_key, encode_value
from tallymark.groups.state import GroupsState
from tallymark.protocol.messages import HeartbeatRequest


def code_of(groups: ReplicatedGroups) -> str:
    try:
        groups.shards.of("g", 1)
    except KafkaError as error:
        return error.name
    return "led"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "COORDINATOR_NOT_AVAILABLE"),
        ("REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("FENCED_LEADER_EPOCH", "NOT_COORDINATOR"),
        ("NOT_COORDINATOR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("RECORD_LIST_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("CORRUPT_MESSAGE", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_errors_of_the_log_are_no_errors_for_members(error: str, expected: str) -> None:
    refused = refusal_of(KafkaError(CODES[error], "x"), "INVALID_COMMIT_OFFSET_SIZE")
    assert refused == CODES[expected]


RECORD = (encode_key(OffsetKey("g", "t", 0)), encode_value(CommittedOffset(5)))


@pytest.mark.parametrize(
    ("appended", "committed", "withdrawn", "closed", "expected"),
    [
        (0, 0, False, False, "answer"),
        (1, 0, False, False, None),
        (1, 1, False, False, "answer"),
        (2, 1, False, False, None),
        (2, 2, False, False, "answer"),
        (1, 1, True, False, "NOT_COORDINATOR"),
        (1, 1, False, True, "NOT_COORDINATOR"),
        (1, 0, True, False, "NOT_COORDINATOR"),
        (0, 0, True, True, "NOT_COORDINATOR"),
    ],
)
def test_when_an_answer_may_leave(
    appended: int, committed: int, withdrawn: bool, closed: bool, expected: str | None
) -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        partition = groups.lead_of(0, 0)
        state = ReplayedState(partition, GroupsState())
        for _ in range(appended):
            state.append([RECORD], 0)
        assert state.end == appended
        partition.commit(committed)
        if withdrawn:
            partition.withdraw()
        if closed:
            state.close()
        answer = state.settled("answer", lambda code: KafkaError(code, "").name)
        if expected is None:
            assert isinstance(answer, asyncio.Future)
            assert not answer.done()
            partition.commit(appended)
            assert answer.done()
            answer = answer.result()
        assert answer == (expected or "answer")
        if withdrawn or closed:
            before = groups.log.end_offset
            with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
                state.append([RECORD], 0)
            assert (groups.log.end_offset, state.end) == (before, appended)

    run(story())


def test_an_answer_is_not_released_by_the_end_of_a_log_that_was_cut() -> None:
    """The log's end as it is now is not what the answer was decided from: cut to the high watermark
    it would let everything pass."""

    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        await groups.start(commit("s", 5), 7)
        groups.cut(0)
        assert groups.log.end_offset == groups.partition.high_watermark == 0
        assert not (await groups.start(fetch("s"), 7)).done()
        groups.lose()

    run(story())


def test_a_loss_that_is_told_late_does_not_end_a_newer_lead() -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        old = groups.partition
        shard = groups.shard
        old.withdraw()
        await groups.lead(epoch=2)
        assert shard.closed  # one epoch ends when the next one begins, at the latest
        groups.shards.give_up(old)
        assert code_of(groups) == "led"
        assert groups.shard.partition.leader_epoch == 2
        await groups.shards.take(old)  # an order that was overtaken
        assert groups.shard.partition.leader_epoch == 2
        groups.shards.give_up(groups.partition)
        assert code_of(groups) == "NOT_COORDINATOR"

    run(story())


def test_a_load_of_an_older_epoch_that_ends_late_is_thrown_away() -> None:
    """The lead was lost and regained while the log of the first epoch was being read: what was read
    then may have been cut since."""

    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        committing = await groups.start(commit("s", 5), 7)
        groups.lose()
        await committing
        first = groups.lead_of(1, 0)
        loading = asyncio.create_task(groups.shards.take(first))
        await asyncio.sleep(0)
        assert code_of(groups) == "COORDINATOR_LOAD_IN_PROGRESS"
        first.withdraw()
        groups.shards.give_up(first)
        groups.cut(0)
        await groups.lead(epoch=2)
        await loading
        assert groups.shard.partition.leader_epoch == 2
        assert fetched(await groups.ask(fetch("s"), 7)) == -1
        assert groups.shards.metrics.loads == 2
        groups.shards.close()

    run(story())


def test_a_member_is_told_nothing_bad_while_its_coordinator_loads() -> None:
    """aiokafka ended a consumer for good: as the answer to a heartbeat it does not know
    COORDINATOR_LOAD_IN_PROGRESS, and Apache Kafka never gives that."""

    async def story() -> None:
        groups = ReplicatedGroups()
        loading = asyncio.create_task(groups.shards.take(groups.lead_of(0, 0)))
        await asyncio.sleep(0)
        assert code_of(groups) == "COORDINATOR_LOAD_IN_PROGRESS"
        beat = HeartbeatRequest(group_id="s", generation_id=1, member_id="m")
        assert (await groups.ask(beat, 3)).error_code == 0
        await loading
        assert (await groups.ask(beat, 3)).error_code == CODES["UNKNOWN_MEMBER_ID"]
        groups.shards.close()

    run(story())


def test_a_log_that_cannot_be_read_any_more_since_the_lead_is_lost_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        partition = groups.lead_of(0, 0)

        def cut_meanwhile(*_: object) -> None:
            groups.shards.give_up(partition)
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"errno {errno.EIO}")

        monkeypatch.setattr(module, "replay_log", cut_meanwhile)
        await groups.shards.take(partition)
        assert code_of(groups) == "NOT_COORDINATOR"
        assert groups.shards.metrics.load_failures == 0

    run(story())
