"""Produce, TxnOffsetCommit and WriteTxnMarkers in every served version, in every state in which the
partition, the group or the coordinator may be: compared with a table. At a broker, since there the
partition and the coordinator decide together.

A state is where the last transaction of the id stands, and what the client knows of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from wire_producer import WireProducer

from tallymark.broker.handlers import served
from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.coordinator_partition import coordinator_partition
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

NAMES: Final = {code: name for name, code in CODES.items()}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture(scope="module")
def wire(broker: MemoryBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as wire:
        yield wire


def versions_of(request: type[Any]) -> range:
    (found,) = [api for api in served().values() if api.request_class is request]
    return range(found.low, found.high + 1)


# --- the states


def elsewhere(client: WireProducer) -> None:
    """Open, in another partition."""
    own, client.topic = client.topic, f"{client.topic}-other"
    topics = [m.MetadataRequestTopic(name=client.topic)]
    client.wire.ask(m.MetadataRequest(topics=topics), 12)
    assert client.add() == 0
    client.topic = own


def added(client: WireProducer) -> None:
    """Open, and the partition and the group are in it; nothing is written."""
    assert client.add() == client.add_group() == 0


def written(client: WireProducer) -> None:
    """Open, with a batch and an offset."""
    added(client)
    assert client.produce(b"first", 11) == client.commit_offset(1, 4) == 0


def ended(client: WireProducer, *, commit: bool, version: int) -> None:
    written(client)
    client.end(commit=commit, version=version)
    while client.committed()[1] != 2 or client.offset()[0]:
        pass


def partition_of(client: WireProducer) -> int:
    """That of ``__consumer_offsets`` which has the group's offsets."""
    topics = [m.MetadataRequestTopic(name=OFFSETS_TOPIC)]
    (found,) = client.wire.ask(m.MetadataRequest(topics=topics), 12).topics
    return coordinator_partition(client.name, len(found.partitions))


def unaware(client: WireProducer) -> None:
    """Ended in TV2, and the client has not heard of its new epoch."""
    written(client)
    known = client.id, client.epoch
    client.end(commit=True)
    while client.committed()[1] != 2 or client.offset()[0]:
        pass
    client.id, client.epoch = known


def fenced(client: WireProducer) -> None:
    """Another producer has taken the id."""
    written(client)
    known = client.id, client.epoch
    client.init()
    while client.committed()[1] != 2 or client.offset()[0]:
        pass
    client.id, client.epoch = known


def future(client: WireProducer) -> None:
    """The client has an epoch that was never given."""
    written(client)
    client.epoch += 7


def stranger(client: WireProducer) -> None:
    """The client has a producer id that is not of its transactional id."""
    client.id += 1_000_000


STATES: Final[dict[str, Callable[[WireProducer], None]]] = {
    "empty": lambda client: None,
    "elsewhere": elsewhere,
    "added": added,
    "written": written,
    "committed": lambda client: ended(client, commit=True, version=4),
    "aborted": lambda client: ended(client, commit=False, version=4),
    "committed, TV2": lambda client: ended(client, commit=True, version=5),
    "aborted, TV2": lambda client: ended(client, commit=False, version=5),
    "unaware": unaware,
    "fenced": fenced,
    "future": future,
    "stranger": stranger,
}

_NOT_IN: Final = "48 120"
"""Of a partition or group that is in no transaction; before TRANSACTION_ABORTABLE and after."""
EXPECTED: Final = {
    # In versions before the request adds what it needs to the transaction; and since.
    "empty": (_NOT_IN, "0"),
    "elsewhere": (_NOT_IN, "0"),
    "added": ("0 0", "0"),
    "written": ("0 0", "0"),
    "committed": (_NOT_IN, "0"),
    "aborted": (_NOT_IN, "0"),
    "committed, TV2": (_NOT_IN, "0"),
    "aborted, TV2": (_NOT_IN, "0"),
    "unaware": ("47 47", "47"),
    "fenced": ("47 47", "47"),
    "future": ("47 47", "47"),
    "stranger": ("49 49", "49"),
}


def expected(state: str, version: int, first_with_abortable: int, first_that_adds: int) -> str:
    before, since = EXPECTED[state]
    old, new = before.split()
    if version >= first_that_adds:
        return NAMES[int(since)]
    return NAMES[int(new if version >= first_with_abortable else old)]


@pytest.fixture
def client(wire: WireClient) -> WireProducer:
    return new_client(wire)


def new_client(wire: WireClient) -> WireProducer:
    """Its id is not at its first epoch, so that there is an older one."""
    client = WireProducer(wire, f"in-a-state-{next(_numbers)}")
    client.id, client.epoch = client.init()
    return client


@pytest.mark.parametrize("state", STATES)
def test_a_batch_in_each_version(wire: WireClient, state: str) -> None:
    versions = [each for each in versions_of(m.ProduceRequest) if each >= 3]
    assert versions[-1] >= 12
    for version in versions:
        client = new_client(wire)
        STATES[state](client)
        assert NAMES[client.produce(b"x", version)] == expected(state, version, 11, 12), version


@pytest.mark.parametrize("state", STATES)
def test_offsets_in_each_version(wire: WireClient, state: str) -> None:
    for version in versions_of(m.TxnOffsetCommitRequest):
        client = new_client(wire)
        STATES[state](client)
        assert NAMES[client.commit_offset(5, version)] == expected(state, version, 4, 5), version


# --- what is decided, and not written yet


@pytest.fixture
def held(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No marker leaves the coordinator meanwhile."""
    assert broker.broker is not None
    assert broker.broker.state is not None
    sender = broker.broker.state.transaction_shards.sender
    begun: list[tuple[Any, ...]] = []
    begin = sender.begin
    monkeypatch.setattr(sender, "begin", lambda *each: begun.append(each))
    yield
    monkeypatch.undo()

    async def send() -> None:
        for each in begun:
            begin(*each)

    broker.call(send())


def decided(client: WireProducer) -> None:
    """EndTxn before TV2: the epoch stays, so that nothing else refuses what comes late."""
    client.end(commit=True, version=4)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, "NOT_ENOUGH_REPLICAS"), (11, "NOT_ENOUGH_REPLICAS"), (12, "CONCURRENT_TRANSACTIONS")],
)
def test_a_batch_of_a_transaction_that_is_decided_waits_for_its_end(
    client: WireProducer, held: None, version: int, code: str
) -> None:
    """Older clients repeat after NOT_ENOUGH_REPLICAS, and do not look for another leader."""
    added(client)
    decided(client)
    assert NAMES[client.produce(b"late", version)] == code
    assert client.committed() == ([], 0)


@pytest.mark.parametrize("version", versions_of(m.TxnOffsetCommitRequest))
def test_offsets_of_a_transaction_that_is_decided_wait_for_its_end(
    client: WireProducer, held: None, version: int
) -> None:
    """Older clients look for the group's coordinator again, and repeat."""
    added(client)
    decided(client)
    code = "COORDINATOR_NOT_AVAILABLE" if version < 5 else "CONCURRENT_TRANSACTIONS"
    assert NAMES[client.try_offset(5, version)] == code


# --- members of the group (KIP-447)


def joined(client: WireProducer) -> tuple[str, int]:
    """(member id, generation) of the group's only member."""
    protocols = [m.JoinGroupRequestProtocol("range", b"")]
    join = m.JoinGroupRequest(
        group_id=client.name,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    found = client.wire.ask(join, 3)
    assert found.error_code == 0
    sync = m.SyncGroupRequest(client.name, found.generation_id, found.member_id)
    assert client.wire.ask(sync, 2).error_code == 0
    return found.member_id, found.generation_id


GROUPS: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    # What is different in the request, and the code for a group with a member and for one without.
    "as that member": ({}, "NONE", "ILLEGAL_GENERATION"),
    "as a member of an older generation": (
        {"generation_id": 0},
        "ILLEGAL_GENERATION",
        "ILLEGAL_GENERATION",
    ),
    "as another member": ({"member_id": "who"}, "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
    "as no member": ({"generation_id": -1, "member_id": ""}, "NONE", "NONE"),
}


@pytest.mark.parametrize("who", GROUPS)
@pytest.mark.parametrize("with_member", [True, False])
def test_a_member_of_the_group_in_each_version(
    wire: WireClient, who: str, with_member: bool
) -> None:
    """Before version 3 the request names no member, and nothing is checked."""
    changed, there, alone = GROUPS[who]
    for version in versions_of(m.TxnOffsetCommitRequest):
        client = new_client(wire)
        added(client)
        member, generation = joined(client) if with_member else ("m", 1)
        asked = {"member_id": member, "generation_id": generation} | changed
        code = (there if with_member else alone) if version >= 3 else "NONE"
        found = client.commit_offset(5, version, **asked if version >= 3 else {})
        assert NAMES[found] == code, version


# --- markers

OLDER, SAME, NEWER = -1, 0, 1
MARKED: Final = {
    # By the state of the producer in the partition: the codes for a marker with an older, the same
    # and a newer epoch, from before TV2 and of TV2 (KIP-890: each end raises the epoch).
    "empty": ("0 0 0", "0 0 0"),
    "written": ("47 0 0", "47 47 0"),
    "committed": ("47 0 0", "47 0 0"),
}


def marker(client: WireProducer, topic: str, index: int, epoch: int, **more: Any) -> Any:
    return m.WriteTxnMarkersRequestMarker(
        producer_id=client.id,
        producer_epoch=client.epoch + epoch,
        transaction_result=False,
        topics=(m.WriteTxnMarkersRequestTopic(name=topic, partition_indexes=(index,)),),
        **{"coordinator_epoch": 0} | more,
    )


def marked(client: WireProducer, version: int, asked: Any) -> str:
    answer = client.wire.ask(m.WriteTxnMarkersRequest(markers=(asked,)), version)
    return NAMES[answer.markers[0].topics[0].partitions[0].error_code]


@pytest.mark.parametrize("state", MARKED)
@pytest.mark.parametrize("of_offsets", [False, True], ids=["of records", "of offsets"])
@pytest.mark.parametrize(("version", "level"), [(1, 0), (2, 0), (2, 2)])
def test_a_marker_in_each_version(
    wire: WireClient, state: str, of_offsets: bool, version: int, level: int
) -> None:
    assert versions_of(m.WriteTxnMarkersRequest) == range(1, 3)
    for number, epoch in enumerate((OLDER, SAME, NEWER)):
        client = new_client(wire)
        STATES[state](client)
        place = (OFFSETS_TOPIC, partition_of(client)) if of_offsets else (client.topic, 0)
        asked = marker(client, *place, epoch, transaction_version=level)
        code = NAMES[int(MARKED[state][level == 2].split()[number])]
        assert marked(client, version, asked) == code, epoch
        if state == "written":
            stays_open = code != "NONE"
            is_open = client.offset()[0] if of_offsets else client.committed()[1] < 2
            assert bool(is_open) is stays_open


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_of_an_older_coordinator_or_for_no_partition(
    wire: WireClient, version: int
) -> None:
    client = new_client(wire)
    STATES["committed"](client)
    older = marker(client, client.topic, 0, NEWER, coordinator_epoch=-1)
    assert marked(client, version, older) == "TRANSACTION_COORDINATOR_FENCED"
    for topic, index in ((client.topic, 9), ("no-such-topic", 0), (OFFSETS_TOPIC, 999)):
        asked = marker(client, topic, index, NEWER)
        assert marked(client, version, asked) == "UNKNOWN_TOPIC_OR_PARTITION", (topic, index)
