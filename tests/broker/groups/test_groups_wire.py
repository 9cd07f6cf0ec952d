"""Groups over real sockets: every version, parked answers, clients that vanish, restarts."""

from __future__ import annotations

from typing import Any

import pytest
from eventually import eventually
from group_wire import (
    NOT_COORDINATOR,
    REBALANCE,
    REQUIRED,
    SUBSCRIPTION,
    commit,
    connect,
    described,
    fetched,
    frame_of,
    heartbeat,
    join,
    join_request,
    settings,
    stable,
    sync,
    sync_request,
)

from tallymark.errors import CODES
from tallymark.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    ListGroupsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    SyncGroupRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

# --- versions


@pytest.mark.parametrize("version", range(10))
def test_join_in_every_version(wire: WireClient, group: str, version: int) -> None:
    first = wire.ask(join_request(group), version)
    assert (first.error_code == REQUIRED) == (version >= 4)
    if version >= 4:
        assert first.member_id.startswith("wire-")
        joined = wire.ask(join_request(group, first.member_id), version)
    else:
        joined = first
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [bytes(member.metadata) for member in joined.members] == [SUBSCRIPTION]
    refused = wire.ask(join_request(group, "stranger"), version)
    assert refused.error_code == CODES["UNKNOWN_MEMBER_ID"]
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(6))
def test_sync_heartbeat_and_leave_in_every_version(
    wire: WireClient, group: str, version: int
) -> None:
    joined = join(wire, group)
    synced = sync(wire, group, joined, {joined.member_id: b"mine"}, version)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"mine")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    assert heartbeat(wire, group, joined, min(version, 4)) == 0
    leaver = LeaveGroupRequestMember(member_id=joined.member_id, reason="done")
    request = LeaveGroupRequest(group_id=group, member_id=joined.member_id, members=[leaver] * 2)
    left = wire.ask(request, version)
    assert left.error_code == 0
    if version >= 3:
        codes = [member.error_code for member in left.members]
        assert codes == [0, CODES["UNKNOWN_MEMBER_ID"]]
    assert described(wire, group).group_state == "Empty"
    again = wire.ask(LeaveGroupRequest(group_id=group, member_id="x", members=[leaver]), version)
    code = again.members[0].error_code if version >= 3 else again.error_code
    assert code == CODES["UNKNOWN_MEMBER_ID"]


def test_sync_5_must_name_the_protocol(wire: WireClient, group: str) -> None:
    joined = join(wire, group)
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert wire.ask(request, 5).error_code == CODES["INCONSISTENT_GROUP_PROTOCOL"]
    assert wire.ask(request, 4).error_code == 0


@pytest.mark.parametrize("version", range(7))
def test_describe_in_every_version(wire: WireClient, group: str, version: int) -> None:
    joined = stable(wire, group)
    request = DescribeGroupsRequest(groups=[group, "nobody"], include_authorized_operations=True)
    found, missing = wire.ask(request, version).groups
    assert (found.group_state, found.protocol_type, found.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = found.members
    assert (member.member_id, member.client_id) == (joined.member_id, "wire")
    assert member.client_host == "/127.0.0.1"
    assert bytes(member.member_metadata) == SUBSCRIPTION
    assert bytes(member.member_assignment) == b"all"
    assert found.authorized_operations == (-(2**31) if version < 3 else 0b1101_0100_1000)
    assert missing.group_state == "Dead"
    assert missing.error_code == (CODES["GROUP_ID_NOT_FOUND"] if version >= 6 else 0)


@pytest.mark.parametrize("version", range(6))
def test_list_in_every_version(wire: WireClient, group: str, version: int) -> None:
    stable(wire, group)
    commit(wire, f"{group}-simple", None, 1)

    def listed(**filters: Any) -> dict[str, tuple[str, str, str]]:
        groups = wire.ask(ListGroupsRequest(**filters), version).groups
        return {
            each.group_id: (each.protocol_type, each.group_state, each.group_type)
            for each in groups
            if each.group_id.startswith(group)
        }

    kind, state = ("classic" if version >= 5 else ""), version >= 4
    expected = {
        group: ("consumer", "Stable" if state else "", kind),
        f"{group}-simple": ("", "Empty" if state else "", kind),
    }
    assert listed() == expected
    if version >= 4:
        assert listed(states_filter=["stable"]).keys() == {group}
    if version >= 5:
        assert listed(types_filter=["consumer"]) == {}
        assert listed(types_filter=["Classic"]) == expected


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_when_empty(wire: WireClient, group: str, version: int) -> None:
    joined = stable(wire, group)
    commit(wire, group, joined, 5)

    def delete() -> list[int]:
        results = wire.ask(DeleteGroupsRequest(groups_names=[group, "no"]), version).results
        return [result.error_code for result in results]

    not_found = CODES["GROUP_ID_NOT_FOUND"]
    assert delete() == [CODES["NON_EMPTY_GROUP"], not_found]
    wire.ask(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 0)
    assert delete() == [0, not_found]
    assert delete() == [not_found, not_found]
    assert fetched(wire, group) == -1


def test_offsets_are_deleted_where_nobody_reads(wire: WireClient, group: str) -> None:
    joined = stable(wire, group)
    commit(wire, group, joined, 5)

    def delete(name: str) -> tuple[int, list[int]]:
        parts = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)]
        topics = [OffsetDeleteRequestTopic(name="t", partitions=parts)]
        answer = wire.ask(OffsetDeleteRequest(group_id=name, topics=topics), 0)
        codes = [part.error_code for topic in answer.topics for part in topic.partitions]
        return answer.error_code, codes

    unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert delete(group) == (0, [CODES["GROUP_SUBSCRIBED_TO_TOPIC"], unknown])
    wire.ask(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 0)
    assert delete(group) == (0, [0, unknown])
    assert fetched(wire, group) == -1
    assert delete("nobody") == (CODES["GROUP_ID_NOT_FOUND"], [])


# --- parked answers


def test_a_second_member_waits_for_the_first(
    broker: BrokerThread, wire: WireClient, group: str
) -> None:
    first = stable(wire, group)
    with connect(broker) as other:
        request = join_request(group)
        other.send(request, 3)
        eventually(lambda: heartbeat(wire, group, first) == REBALANCE)
        again = join(wire, group, member=first.member_id)
        second = frame_of(other, request, 3)
        assert (again.generation_id, second.generation_id) == (2, 2)
        assert (again.leader, second.leader) == (first.member_id, first.member_id)
        waiting = sync_request(group, second, {})
        other.send(waiting, 5)
        parts = {first.member_id: b"one", second.member_id: b"two"}
        assert bytes(sync(wire, group, again, parts).assignment) == b"one"
        assert bytes(frame_of(other, waiting, 5).assignment) == b"two"


def test_a_client_that_vanishes_while_it_waits_leaves_nothing_behind(
    broker: BrokerThread, wire: WireClient, group: str
) -> None:
    """Its connection ends while its join is parked. The member stays until its time is up, as in
    Kafka; the request must not stay for ever."""
    first = stable(wire, group, session_timeout_ms=4_000, rebalance_timeout_ms=4_000)
    with connect(broker) as other:
        other.send(join_request(group, rebalance_timeout_ms=4_000), 3)
        eventually(lambda: described(wire, group).group_state == "PreparingRebalance")
    assert len(described(wire, group).members) == 2
    assert parked(broker) == 1
    eventually(lambda: parked(broker) == 0)  # the first does not join again: the rebalance goes on
    assert heartbeat(wire, group, first) == CODES["UNKNOWN_MEMBER_ID"]


def parked(broker: BrokerThread) -> int:
    """Joins and syncs that are not answered yet."""
    assert broker.broker is not None
    assert broker.broker.state is not None
    return sum(shard.parked for shard in broker.broker.state.group_shards.shards())


def test_a_silent_member_is_out(wire: WireClient, group: str) -> None:
    joined = stable(wire, group, session_timeout_ms=1_000)
    eventually(lambda: described(wire, group).group_state == "Empty")
    assert heartbeat(wire, group, joined) == CODES["UNKNOWN_MEMBER_ID"]


def test_a_stop_answers_who_waits(tmp_path_factory: pytest.TempPathFactory, group: str) -> None:
    """A parked join would hold the stop up, and its client would not look for another broker."""
    broker = BrokerThread(tmp_path_factory.mktemp("data"), **settings()).start()
    try:
        with connect(broker) as one, connect(broker) as other:
            first = stable(one, group)
            request = join_request(group)
            other.send(request, 5)
            given = frame_of(other, request, 5)
            parked = join_request(group, given.member_id)
            other.send(parked, 5)
            eventually(lambda: heartbeat(one, group, first) == REBALANCE)
            broker.stop()
            assert frame_of(other, parked, 5).error_code == NOT_COORDINATOR
    finally:
        broker.stop()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_brings_the_group_back(
    tmp_path_factory: pytest.TempPathFactory, group: str, how: str
) -> None:
    broker = BrokerThread(tmp_path_factory.mktemp("data"), **settings()).start()
    try:
        with connect(broker) as wire:
            wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
            joined = stable(wire, group, group_instance_id="one")
            assert commit(wire, group, joined, 42) == 0
        getattr(broker, how)()
        broker.start()
        with connect(broker) as wire:
            found = described(wire, group)
            assert (found.group_state, found.protocol_data) == ("Stable", "range")
            assert found.members[0].group_instance_id == "one"
            assert heartbeat(wire, group, joined) == 0
            assert bytes(sync(wire, group, joined).assignment) == b"all"
            assert commit(wire, group, joined, 43) == 0
            assert fetched(wire, group) == 43
    finally:
        broker.stop()
