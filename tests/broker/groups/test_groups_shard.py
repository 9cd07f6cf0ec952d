"""The shell around groups: loading, losing the lead, disks that fail, old offsets; in memory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.shards import put_in_force
from tallymark.broker.coordinators.state_log import append_batch, replay_log
from tallymark.broker.groups.expiry import OffsetsExpiry, expire_offsets
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.groups.shards import GroupShards, group_config
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import CODES, KafkaError
from tallymark.groups.group import State
from tallymark.groups.inputs import Join, JoinReply, Leaver, Sync
from tallymark.groups.offsets import Commit, Committer
from tallymark.groups.records import CommittedOffset, OffsetKey, encode_key, encode_value
from tallymark.groups.state import GroupsState
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

SETTINGS = BrokerSettings(
    group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=10, group_max_size=5
)
FOLDER = "/d/__consumer_offsets-0"
HOUR = 3_600_000


class Box:
    """A store of one partition on a memory disk; ``wall`` is what the clock shows."""

    def __init__(self, **config: Any) -> None:
        self.files = MemoryFiles()
        self.files.make_dirs(FOLDER)
        self.files.sync_dir("/")
        self.files.sync_dir("/d")
        self.wall = 1_000 * HOUR
        self.config = LogConfig(retention_ms=-1, **config)
        self.store = GroupShards(SETTINGS, lambda: self.wall)

    def partition(self) -> Partition:
        log = Log.open(self.files, FOLDER, self.config, clean=False, now_ms=self.wall)
        return Partition("__consumer_offsets", 0, uuid.UUID(int=1), log, 0)

    async def shard(self) -> GroupShard:
        await self.store.take(self.partition())
        return self.store.of("g", 1)


def scenario(work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    def test() -> None:
        asyncio.run(asyncio.wait_for(work(), 20))

    test.__name__, test.__doc__ = work.__name__, work.__doc__
    return test


def join(member_id: str = "", **changes: Any) -> Join:
    fields: dict[str, Any] = {
        "ticket": 0,
        "member_id": member_id,
        "instance_id": None,
        "fresh_id": f"m-{uuid.uuid4()}",
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (("range", b"x"),),
    }
    return Join(**(fields | changes))


async def stable(shard: GroupShard, group: str = "g", **changes: Any) -> JoinReply:
    joined = await shard.join(group, join(**changes))
    part = {joined.member_id: b"part"}
    synced = await shard.sync(
        group, Sync(0, joined.member_id, None, joined.generation, assignments=part)
    )
    assert (synced.error, synced.assignment) == (0, b"part")
    return joined


def state_of(shard: GroupShard, group: str = "g") -> State | None:
    found = shard.group(group)
    return None if found is None else found.state


@scenario
async def test_groups_are_refused_while_they_are_loaded() -> None:
    box = Box()
    loading = asyncio.create_task(box.store.take(box.partition()))
    await asyncio.sleep(0)
    assert box.store.loading
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        box.store.of("g", 1)
    await loading
    assert not box.store.loading
    assert box.store.of("g", 1).group("g") is None


@scenario
async def test_a_lead_lost_while_loading_is_lost() -> None:
    box = Box()
    partition = box.partition()
    loading = asyncio.create_task(box.store.take(partition))
    await asyncio.sleep(0)
    box.store.give_up(partition)
    await loading
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        box.store.of("g", 1)


@scenario
async def test_a_log_that_cannot_be_read_is_not_loading_for_ever() -> None:
    box = Box()
    partition = box.partition()
    partition.append(bytearray(encode_batch([(b"k", b"v", (), 0)])), box.wall)
    partition.log.abandon()
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        await box.store.take(partition)
    assert not box.store.loading
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        box.store.of("g", 1)


@scenario
async def test_losing_the_lead_answers_who_waits() -> None:
    box = Box()
    shard = await box.shard()
    await stable(shard)
    joining = shard.join("g", join())
    leader = await shard.join("h", join())
    follows = shard.join("h", join())
    await shard.join("h", join(leader.member_id))
    follower = await follows
    syncing = shard.sync("h", Sync(0, follower.member_id, None, follower.generation))
    await asyncio.sleep(0)
    assert (joining.done(), syncing.done(), shard.parked) == (False, False, 2)
    box.store.give_up(shard.partition)
    assert (await joining).error == (await syncing).error == CODES["NOT_COORDINATOR"]
    assert shard.parked == 0
    assert shard._timers == {}
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        box.store.of("g", 1)


@scenario
async def test_a_topic_deleted_while_groups_are_loaded_is_forgotten() -> None:
    """Its name could come again, and the group would go on where the old one ended."""
    box = Box()
    shard = await box.shard()
    shard.commit("g", Committer(), [Commit("t", 0, 5)], 100, 0)
    box.store.close()
    partition = box.partition()
    loading = asyncio.create_task(box.store.take(partition))
    await asyncio.sleep(0)
    box.store.forget_topic("t")
    await loading
    assert box.store.of("g", 1).state.offsets.get("g", "t", 0) is None
    assert replay_log(partition.log, GroupsState()).offsets.get("g", "t", 0) is None


@scenario
async def test_a_topic_that_came_again_keeps_its_commits_where_groups_are_loaded_later() -> None:
    """Topics deleted while one partition was being loaded were remembered until none was, and
    forgotten in all that were loaded meanwhile: with what was committed on a topic of that name
    that had been created again."""
    other, box = Box(), Box()
    (await other.shard()).commit("g", Committer(), [Commit("t", 0, 5)], 100, 0)
    other.store.close()
    came_later = other.partition()
    came_later.index = 1
    loading = asyncio.create_task(box.store.take(box.partition()))
    await asyncio.sleep(0)
    box.store.forget_topic("t")
    await asyncio.gather(loading, box.store.take(came_later))
    (found,) = [s for s in box.store.shards() if s.partition is came_later]
    assert found.state.offsets.get("g", "t", 0) is not None


@scenario
async def test_a_deleted_topic_is_forgotten_beside_a_failed_disk() -> None:
    """The first partition that could not be appended to kept all others from forgetting."""
    good, box = Box(), Box()
    failed = await box.shard()
    failed.commit("g", Committer(), [Commit("t", 0, 5)], 100, 0)
    (await good.shard()).commit("g", Committer(), [Commit("t", 0, 5)], 100, 0)
    good.store.close()
    partition = good.partition()
    partition.index = 1
    await box.store.take(partition)
    box.files.fail_next_write(".log")
    box.store.forget_topic("t")
    first, second = box.store.shards()
    assert first is failed
    assert first.state.offsets.get("g", "t", 0) is not None
    assert second.state.offsets.get("g", "t", 0) is None


@scenario
async def test_groups_that_cannot_be_taken_over_leave_no_timers() -> None:
    """Loading that failed half way (or was ended by a stop) left the timers of the groups so far:
    later they decided, and appended, for a coordinator that nobody asks."""
    box = Box()
    shard = await box.shard()
    for name in ("g", "h"):
        await stable(shard, name)
    box.store.close()
    state = replay_log(box.partition().log, GroupsState())
    made = GroupShard(ReplayedState(box.partition(), state), group_config(SETTINGS), shard._now)
    state.metadata["h"] = None  # type: ignore[assignment]  # no group can be made of that
    with pytest.raises(AttributeError):
        await put_in_force(made)
    assert made.closed
    assert made._timers == {}


@scenario
async def test_a_failing_disk_is_told_and_nothing_is_promised() -> None:
    box = Box()
    shard = await box.shard()
    joined = await shard.join("g", join())
    box.files.fail_next_write(".log", error=errno.EIO)
    part = {joined.member_id: b"part"}
    synced = await shard.sync(
        "g", Sync(0, joined.member_id, None, joined.generation, assignments=part)
    )
    assert (synced.error, synced.assignment) == (CODES["NOT_COORDINATOR"], b"")
    assert state_of(shard) is State.PREPARING_REBALANCE
    codes = shard.commit("h", Committer(), [Commit("t", 0, 5)], 100, 0)
    assert codes == (CODES["NOT_COORDINATOR"],)
    assert shard.group("h") is None
    with contextlib.suppress(KafkaError):
        shard.forget_topic("t")
    assert replay_log(box.partition().log, GroupsState()) == GroupsState()
    shard.close()


@scenario
async def test_an_assignment_that_is_too_large_for_the_log_is_an_error_for_all() -> None:
    box = Box(max_message_bytes=2_000)
    shard = await box.shard()
    joined = await shard.join("g", join())
    part = {joined.member_id: bytes(5_000)}
    synced = await shard.sync(
        "g", Sync(0, joined.member_id, None, joined.generation, assignments=part)
    )
    assert synced.error == CODES["UNKNOWN_SERVER_ERROR"]
    commits = [Commit("t", n, 5, metadata="x" * 100) for n in range(50)]
    codes = shard.commit("h", Committer(), commits, 100, 0)
    assert set(codes) == {CODES["INVALID_COMMIT_OFFSET_SIZE"]}
    shard.close()


@scenario
async def test_many_offsets_go_into_several_batches() -> None:
    box = Box()
    shard = await box.shard()
    commits = [Commit("t", n, n, metadata="x" * 1_000) for n in range(2_000)]
    assert set(shard.commit("g", Committer(), commits, 4_096, 0)) == {0}
    replayed = replay_log(shard.partition.log, GroupsState())
    assert replayed == shard.state
    assert len(list(replayed.offsets.of_group("g"))) == 2_000


@scenario
async def test_a_rebalance_ends_by_its_timer() -> None:
    box = Box()
    shard = await box.shard()
    await stable(shard, rebalance_timeout_ms=50)
    second = await shard.join("g", join(rebalance_timeout_ms=50))
    assert second.leader == second.member_id
    await stable(shard, "h", session_timeout_ms=20)
    while state_of(shard, "h") is not State.EMPTY:
        await asyncio.sleep(0.005)
    shard.close()


@scenario
async def test_groups_that_never_were_are_not_remembered() -> None:
    """Each join with an unknown name could leave something behind, until memory is full."""
    box = Box()
    shard = await box.shard()
    for n in range(100):
        shard.heartbeat(f"g{n}", "m", None, 1)
        refused = await shard.join(f"g{n}", join("stranger"))
        assert refused.error == CODES["UNKNOWN_MEMBER_ID"]
        shard.leave(f"g{n}", [Leaver("m")])
        given = await shard.join(f"g{n}", join(must_know_id=True, session_timeout_ms=30))
        assert given.error == CODES["MEMBER_ID_REQUIRED"]
    assert len(shard._groups) == 100
    while shard._groups:
        await asyncio.sleep(0.01)
    assert shard._timers == {}
    assert list(shard.groups()) == []


@scenario
async def test_old_offsets_and_empty_groups_are_forgotten() -> None:
    box = Box()
    shard = await box.shard()
    joined = await stable(shard)
    assert shard.commit("g", Committer(joined.member_id, None, 1), [Commit("t", 0, 5)], 100, 0) == (
        0,
    )
    shard.commit("simple", Committer(), [Commit("t", 0, 6)], 100, 0)
    shard.leave("g", [Leaver(joined.member_id)])
    box.wall += HOUR
    shard.commit("young", Committer(), [Commit("t", 0, 7)], 100, 0)
    await expire_offsets(box.store, HOUR + 1)
    assert [group.group_id for group in shard.groups()] == ["g", "simple", "young"]
    await expire_offsets(box.store, HOUR)
    assert [group.group_id for group in shard.groups()] == ["young"]
    assert replay_log(shard.partition.log, GroupsState()) == shard.state


@scenario
async def test_the_background_task_forgets_too() -> None:
    box = Box()
    shard = await box.shard()
    shard.commit("g", Committer(retention_ms=1), [Commit("t", 0, 5)], 100, 0)
    box.wall += 1
    expiry = OffsetsExpiry(box.store, BrokerSettings(offsets_retention_check_interval_ms=5))
    expiry.start()
    while shard.state.knows("g"):
        await asyncio.sleep(0.005)
    await expiry.stop()


@scenario
async def test_records_that_do_not_parse_are_left_out() -> None:
    """One damaged record, of another tool's perhaps, must not take all groups away."""
    box = Box()
    partition = box.partition()
    key, value = encode_key(OffsetKey("g", "t", 0)), encode_value(CommittedOffset(5))
    strange = [(b"\0\x01x", b"y", (), 0), (None, b"z", (), 0), (key, b"\0\x09", (), 0)]
    partition.append(bytearray(encode_batch([*strange, (key, value, (), 0)])), box.wall)
    await box.store.take(partition)
    assert box.store.of("g", 1).state.offsets.get("g", "t", 0) == CommittedOffset(5)


def test_a_log_that_was_cut_or_compacted_is_replayed_to_its_end() -> None:
    """A read may find no batch and still not be at the end of the log."""
    box = Box(segment_bytes=1_024)
    partition, state = box.partition(), GroupsState()
    for n in range(200):
        record = (encode_key(OffsetKey("g", "t", n)), encode_value(CommittedOffset(n)))
        append_batch(partition, state, [record], box.wall)
    assert partition.log.segment_count > 3
    assert replay_log(partition.log, GroupsState()) == state


def test_the_settings_reach_the_groups() -> None:
    assert group_config(SETTINGS).max_size == 5
    assert group_config(SETTINGS).min_session_timeout_ms == 10
