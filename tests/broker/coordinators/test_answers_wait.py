"""Every answer of the coordinator leaves when what it was decided from is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from replicated_groups import (
    ReplicatedGroups,
    batch_of,
    commit,
    fetch,
    fetched,
    heartbeat,
    join,
    sync,
)
from replicated_shard import run

from tallymark.broker.coordinators import replayed
from tallymark.broker.groups.expiry import expire_offsets
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.errors import CODES
from tallymark.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tallymark.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tallymark.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tallymark.protocol.schema import Message


class Asked(NamedTuple):
    """One request of an API, in a version: about the stable group g, the group s that has only
    offsets, or the group h, whose leader has joined and not synced yet."""

    name: str
    request: Callable[[str, str], Message]
    """From the ids of the members of g and h."""
    version: int
    late: str = "COORDINATOR_NOT_AVAILABLE"
    lost: str = "NOT_COORDINATOR"


def _groups(*names: str) -> list[OffsetFetchRequestGroup]:
    asked = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    return [OffsetFetchRequestGroup(group_id=name, topics=[asked]) for name in names]


def _delete_offsets() -> OffsetDeleteRequest:
    part = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest("s", [OffsetDeleteRequestTopic("t", [part])])


_LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
EVERY = [
    Asked("commit", lambda g, h: commit("s", 8), 7),
    Asked("fetch v1", lambda g, h: fetch("s"), 1, _LOADING),
    Asked("fetch v7", lambda g, h: fetch("s"), 7, _LOADING),
    Asked("fetch all", lambda g, h: OffsetFetchRequest(group_id="s", topics=None), 7, _LOADING),
    Asked("fetch one", lambda g, h: OffsetFetchRequest(groups=_groups("s")), 8, _LOADING),
    Asked("fetch many", lambda g, h: OffsetFetchRequest(groups=_groups("s", "g")), 8, _LOADING),
    Asked("heartbeat", lambda g, h: heartbeat("g", g), 3),
    Asked("join", lambda g, h: join("new"), 3),
    Asked("sync", lambda g, h: sync("h", h), 3),
    Asked("sync again", lambda g, h: sync("g", g), 3),
    Asked("leave v2", lambda g, h: LeaveGroupRequest(group_id="g", member_id=g), 2),
    Asked("describe", lambda g, h: DescribeGroupsRequest(groups=["g", "s"]), 5),
    Asked(
        "list",
        lambda g, h: ListGroupsRequest(),
        4,
        lost="COORDINATOR_NOT_AVAILABLE",
    ),
    Asked("delete", lambda g, h: DeleteGroupsRequest(groups_names=["s"]), 1),
    Asked("delete offsets", lambda g, h: _delete_offsets(), 0),
]
every_api = pytest.mark.parametrize("asked", EVERY, ids=lambda asked: asked.name)


async def prepared() -> tuple[ReplicatedGroups, str, str]:
    """Everything committed, then a commit of group s that is not."""
    groups = ReplicatedGroups()
    await groups.lead()
    member = await groups.stable()
    leader = (await groups.ask(join("h"), 3)).member_id
    committing = await groups.start(commit("s", 5), 7)
    groups.commit_all()
    await groups.answered(committing)
    assert not (await groups.start(commit("s", 7), 7)).done()
    return groups, member, leader


@every_api
def test_an_answer_leaves_when_it_is_committed(asked: Asked) -> None:
    async def story() -> None:
        groups, member, leader = await prepared()
        answer = await groups.start(asked.request(member, leader), asked.version)
        assert not answer.done()
        groups.partition.commit(groups.log.end_offset - 1)
        if groups.shard._replayed.end > groups.partition.high_watermark:
            await asyncio.sleep(0)
            assert not answer.done()
        groups.commit_all()
        assert error_codes(await groups.answered(answer)) == []
        assert groups.shard._replayed.held == 0
        groups.shards.close()

    run(story())


@every_api
def test_with_one_replica_an_answer_leaves_in_the_same_turn(asked: Asked) -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        groups.partition._committed = None  # one replica: nothing was begun
        member = (await groups.ask(join("g"), 3)).member_id
        await groups.ask(sync("g", member), 3)
        leader = (await groups.ask(join("h"), 3)).member_id
        await groups.ask(commit("s", 7), 7)
        answer = await groups.ask(asked.request(member, leader), asked.version)
        assert error_codes(answer) == []
        assert groups.shards.metrics.held == {}
        groups.shards.close()

    run(story())


@every_api
def test_when_the_lead_is_lost_everything_that_waits_is_told(asked: Asked) -> None:
    async def story() -> None:
        groups, member, leader = await prepared()
        answer = await groups.start(asked.request(member, leader), asked.version)
        groups.lose()
        found = await groups.answered(answer)
        assert set(error_codes(found)) == {CODES[asked.lost]}
        held = groups.shards.metrics.held
        committed = held["committed"]
        groups.partition.commit(groups.log.end_offset)  # heard too late: it answers nothing
        assert held["committed"] == committed
        assert held["lost"] >= 2

    run(story())


@every_api
def test_an_answer_that_is_not_committed_in_time_may_be_asked_again(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is rolled back: the record may be committed later (KAFKA-9666)."""

    async def story() -> None:
        groups, member, leader = await prepared()
        monkeypatch.setattr(replayed, "ANSWER_MS", 1)
        answer = await groups.start(asked.request(member, leader), asked.version)
        found = await answer
        assert set(error_codes(found)) == {CODES[asked.late]}
        kept = groups.shard.state.offsets.get("s", "t", 0)
        if asked.name not in ("delete", "delete offsets"):
            assert kept is not None
            assert kept.offset == (8 if asked.name == "commit" else 7)
        groups.shards.close()

    run(story())


def test_what_was_replayed_is_told_when_this_epoch_has_committed_it() -> None:
    """The log of a new leader has records that no other replica may have. Until they are committed
    in its own epoch nothing that was decided from them leaves."""

    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        member = await groups.stable()
        await groups.start(commit("s", 5), 7)
        known = groups.partition.high_watermark
        groups.lose()
        await groups.lead(epoch=1, known=known)
        reading = await groups.start(fetch("s"), 7)
        beating = await groups.start(heartbeat("g", member), 3)
        assert not reading.done()
        assert not beating.done()
        groups.commit_all()
        assert fetched(await groups.answered(reading)) == 5
        assert error_codes(await groups.answered(beating)) == []
        groups.shards.close()

    run(story())


def test_the_high_watermark_of_another_epoch_commits_nothing() -> None:
    """KAFKA-20634: a broker lost the lead of a partition and followed. Its log was cut and filled
    with the new leader's records, and the high watermark rose past the offset of a commit that it
    had appended; the coordinator, which did not know yet that it had to give up, took that for the
    commit of its own record and acknowledged it. The offset was nowhere."""

    async def story() -> None:
        groups = ReplicatedGroups()
        first = await groups.lead()
        await groups.stable()
        begin = groups.log.end_offset
        lost = await groups.start(commit("s", 5), 7)
        reading = await groups.start(fetch("s"), 7)
        led = groups.partition
        led.withdraw()  # the coordinator is told later
        groups.cut(begin)
        groups.copy(batch_of(1, begin, "s", 99), 1)
        groups.lead_of(1, begin).commit(groups.log.end_offset)
        for answer in (lost, reading):
            assert set(error_codes(await groups.answered(answer))) == {CODES["NOT_COORDINATOR"]}
        # and what is asked before it is told must not be answered from lost records
        for request in (fetch("s"), commit("s", 6), heartbeat("g", "x")):
            refused = await groups.ask(request, 3 if type(request).__name__[0] == "H" else 7)
            assert set(error_codes(refused)) == {CODES["NOT_COORDINATOR"]}
        assert groups.log.end_offset == begin + 1
        groups.shards.give_up(led)
        assert first.closed
        await groups.lead(epoch=2, known=begin + 1)
        assert fetched(await groups.ask(fetch("s"), 7)) == 99
        groups.shards.close()

    run(story())


def test_a_heartbeat_does_not_report_a_generation_that_never_was() -> None:
    """A rebalance ends in a record. The next leader may not have it: then its members are in the
    generation before, and one that was told to go on would read partitions of another."""

    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        member = await groups.stable()
        rejoined = await groups.ask(join("g", member), 3)
        assert rejoined.generation_id == 2
        known = groups.log.end_offset
        syncing = await groups.start(sync("g", member, 2), 3)
        beating = await groups.start(heartbeat("g", member, 2), 3)
        groups.lose()
        groups.cut(known)
        for answer in (syncing, beating):
            assert error_codes(await groups.answered(answer)) == [CODES["NOT_COORDINATOR"]]
        await groups.lead(epoch=1, known=known)
        beaten = await groups.ask(heartbeat("g", member, 2), 3)
        assert error_codes(beaten) == [CODES["ILLEGAL_GENERATION"]]
        assert error_codes(await groups.ask(heartbeat("g", member, 1), 3)) == []
        groups.shards.close()

    run(story())


def test_joins_and_syncs_that_are_parked_are_told_that_the_lead_is_lost() -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        member = await groups.stable()
        waits_for_member = await groups.start(join("g"), 3)
        rejoins = await groups.start(join("g", member), 3)
        second = (await groups.answered(waits_for_member)).member_id
        await groups.answered(rejoins)
        follower_syncs = await groups.start(sync("g", second, 2), 3)
        waits = await groups.start(join("g"), 3)
        groups.lose()
        for answer in (follower_syncs, waits):
            code = error_codes(await groups.answered(answer))
            assert code in ([CODES["NOT_COORDINATOR"]], [CODES["REBALANCE_IN_PROGRESS"]])
        assert error_codes(waits.result()) == [CODES["NOT_COORDINATOR"]]

    run(story())


def test_what_nobody_is_told_of_is_appended_all_the_same() -> None:
    """Expired offsets and offsets of deleted topics go by records, too, and the next answer waits
    for them: it was decided without these offsets."""

    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        committing = await groups.start(commit("s", 5), 7)
        groups.commit_all()
        await groups.answered(committing)
        before = groups.log.end_offset
        groups.shards.forget_topic("t")
        assert groups.log.end_offset == before + 1
        reading = await groups.start(fetch("s"), 7)
        assert not reading.done()
        groups.commit_all()
        assert fetched(await groups.answered(reading)) == -1
        again = await groups.start(commit("s", 6), 7)
        groups.commit_all()
        await groups.answered(again)
        await expire_offsets(groups.shards, 0)
        reading = await groups.start(fetch("s"), 7)
        assert not reading.done()
        groups.commit_all()
        assert fetched(await groups.answered(reading)) == -1
        groups.shards.close()

    run(story())


def test_a_client_that_is_gone_does_not_wait() -> None:
    async def story() -> None:
        groups = ReplicatedGroups()
        await groups.lead()
        waiting: Any = await groups.start(commit("s", 5), 7)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert groups.shard._replayed.held == 0
        groups.commit_all()
        groups.shards.close()

    run(story())
