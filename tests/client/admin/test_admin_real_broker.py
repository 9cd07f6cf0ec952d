"""Admin against real brokers, ours and Apache Kafka: what succeeds and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from broker_kinds import KINDS, OURS, AnyBroker, start_apache_kafka
from commands import run_command
from confluent_kafka import Consumer
from eventually import eventually

from tallymark.cli.admin import offsets
from tallymark.client import Admin, Producer
from tallymark.client.admin.configs import Change, ConfigResource, ListChange
from tallymark.client.admin.groups import GroupDescription, MemberDescription
from tallymark.client.admin.records import END_OF_LOG
from tallymark.client.admin.reset import OffsetTarget
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.client.admin.users import NewPassword
from tallymark.errors import KafkaError, UserError
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.testing.broker_thread import BrokerThread


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    folder = tmp_path_factory.mktemp("admin")
    if request.param == OURS:
        with BrokerThread(folder, auto_create_topics_enable=False) as running:
            yield running
    else:  # one of its own: here it is told what there is in all
        kafka = start_apache_kafka(folder, {"auto.create.topics.enable": "false"})
        try:
            yield kafka
        finally:
            kafka.stop()


@pytest.fixture(scope="module")
def admin(broker: AnyBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=5000) as one:
        yield one


def fill(broker: AnyBroker, topic: str, count: int, first_ms: int = 1_000_000) -> None:
    """``count`` records in partition 0, a second apart."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(count):
            producer.send(topic, b"x" * 10, partition=0, timestamp=first_ms + number * 1000)
            producer.flush()


def soon(holds: Callable[[], bool]) -> None:
    """Brokers of Apache Kafka hear of what the controller has changed a little later."""
    eventually(holds, every=0.05)


def code_of(error: BaseException) -> str:
    assert isinstance(error, KafkaError), error
    return error.name


@pytest.mark.soak_cases("apache_kafka")
def test_topics_are_made_described_grown_and_deleted_each_by_itself(admin: Admin) -> None:
    made = admin.create_topics(
        [
            NewTopic("admin-one", 2, configs={"retention.ms": "60000"}),
            NewTopic("admin-by-hand", assignment={0: [0], 1: [0]}),
            NewTopic("no good", 1),
            NewTopic("admin-none", 0),
        ]
    )
    assert made["admin-one"].partitions == 2
    assert made["admin-one"].configs["retention.ms"] == "60000"
    assert made["admin-by-hand"].partitions == 2
    assert code_of(made.errors["no good"]) == "INVALID_TOPIC_EXCEPTION"
    assert code_of(made.errors["admin-none"]) == "INVALID_PARTITIONS"
    with pytest.raises(KafkaError) as raised:
        made.check()
    assert raised.value.__notes__ == ["and 1 more failed"]

    soon(lambda: {"admin-one", "admin-by-hand"} <= set(admin.topics()))
    described = admin.describe_topics(["admin-one", "missing"])
    assert [part.leader for part in described["admin-one"].partitions] == [0, 0]
    assert described["admin-one"].partitions[0].replicas == (0,)
    assert not described["admin-one"].partitions[0].under_replicated
    assert code_of(described.errors["missing"]) == "UNKNOWN_TOPIC_OR_PARTITION"

    assert admin.create_partitions({"admin-one": 5}, validate_only=True).check() == {
        "admin-one": None
    }
    assert admin.topics()["admin-one"].partition_count == 2
    grown = admin.create_partitions({"admin-one": 3, "admin-by-hand": 1})
    assert list(grown) == ["admin-one"]
    assert code_of(grown.errors["admin-by-hand"]) == "INVALID_PARTITIONS"
    three = (("admin-one", 0), ("admin-one", 1), ("admin-one", 2))
    soon(lambda: admin.partitions_of(["admin-one"]) == three)

    gone = admin.delete_topics(["admin-one", "admin-by-hand", "missing"])
    assert set(gone) == {"admin-one", "admin-by-hand"}
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(gone.errors["missing"])
    soon(lambda: "admin-one" not in admin.topics())


def test_a_topic_that_is_only_tried_is_not_made(admin: Admin) -> None:
    assert admin.create_topics([NewTopic("admin-tried", 2)], validate_only=True)["admin-tried"]
    assert "admin-tried" not in admin.topics()


def test_configurations_come_with_their_source(admin: Admin) -> None:
    admin.create_topic("admin-configured", 1, {"retention.ms": "1000"})
    topic = ConfigResource("topic", "admin-configured")
    soon(lambda: topic in admin.describe_configs([topic]))
    entries = admin.describe_configs([topic], documentation=True)[topic]
    kept = entries["retention.ms"]
    assert (kept.value, kept.source, kept.is_default) == ("1000", "topic", False)
    assert entries["cleanup.policy"].is_default
    assert kept.documentation
    assert kept.type == "long"
    assert kept.synonyms[0].source == "topic"

    changes: dict[ConfigResource, dict[str, Change]] = {
        topic: {
            "retention.ms": None,
            "segment.bytes": "1048576",
            "cleanup.policy": ListChange("append", "compact"),
        },
        ConfigResource("topic", "missing"): {"retention.ms": "1"},
    }
    changed = admin.alter_configs(changes)
    assert list(changed) == [topic]
    assert len(changed.errors) == 1
    names = ["retention.ms", "segment.bytes", "cleanup.policy"]
    soon(lambda: admin.describe_configs([topic], names=names)[topic]["retention.ms"].is_default)
    now = admin.describe_configs([topic], names=names)
    assert now[topic]["retention.ms"].is_default
    assert now[topic]["segment.bytes"].value == "1048576"
    assert now[topic]["cleanup.policy"].value == "delete,compact"

    refused = admin.alter_configs({topic: {"retention.ms": "soon"}}, validate_only=True)
    assert code_of(refused.errors[topic]) == "INVALID_CONFIG"


def test_a_brokers_own_configurations(admin: Admin) -> None:
    broker = ConfigResource("broker", "0")
    entries = admin.describe_configs([broker, ConfigResource("broker", "7")])
    assert entries[broker]["num.partitions"].value == "1"
    assert code_of(entries.errors["broker", "7"]) == "BROKER_NOT_AVAILABLE"  # type: ignore[index] # an equal tuple


def test_offsets_by_end_and_time(admin: Admin, broker: AnyBroker) -> None:
    admin.create_topic("admin-timed", 2)
    fill(broker, "admin-timed", 5)
    at = ("admin-timed", 0)
    assert admin.list_offsets({at: EARLIEST, ("admin-timed", 1): LATEST}).check() == {
        at: admin.list_offsets({at: EARLIEST})[at],
        ("admin-timed", 1): admin.list_offsets({("admin-timed", 1): EARLIEST})[("admin-timed", 1)],
    }
    third = admin.list_offsets({at: 1_001_500})[at]
    assert (third.offset, third.timestamp) == (2, 1_002_000)
    assert admin.list_offsets({at: 9_000_000})[at].offset is None
    found = admin.list_offsets({at: LATEST, ("missing", 0): LATEST, ("admin-timed", 9): LATEST})
    assert found[at].offset == 5
    assert set(found.errors) == {("missing", 0), ("admin-timed", 9)}


def test_records_are_deleted_up_to_an_offset_or_a_time(admin: Admin, broker: AnyBroker) -> None:
    admin.create_topic("admin-short", 2)
    fill(broker, "admin-short", 10)
    at = ("admin-short", 0)
    assert admin.delete_records({at: 3})[at] == 3
    before = admin.offsets_at([at, ("admin-short", 1)], 1_006_000)
    assert before.check() == {at: 6, ("admin-short", 1): END_OF_LOG}
    assert admin.delete_records(before.check()).check() == {at: 6, ("admin-short", 1): 0}
    assert admin.list_offsets({at: EARLIEST})[at].offset == 6
    refused = admin.delete_records({at: 99, ("admin-short", 1): END_OF_LOG})
    assert code_of(refused.errors[at]) == "OFFSET_OUT_OF_RANGE"
    assert refused["admin-short", 1] == 0
    assert admin.delete_records({at: END_OF_LOG})[at] == 10


def test_a_groups_offsets_are_set_reset_told_and_forgotten(admin: Admin, broker: AnyBroker) -> None:
    admin.create_topic("admin-read", 2)
    fill(broker, "admin-read", 10)
    at = ("admin-read", 0)
    assert admin.alter_group_offsets("loader", {at: 4}).check() == {at: None}
    assert admin.group_offsets("loader")[at].offset == 4
    assert admin.group_offsets("loader", [("admin-read", 1)]).check() == {}

    listed = admin.list_groups()
    assert listed.groups["loader"].coordinator == 0
    assert listed.groups["loader"].state == "Empty"
    assert "loader" not in admin.list_groups(states=["Stable"]).groups
    described = admin.describe_groups(["loader", "nobody"])
    assert described["loader"].state == "Empty"
    assert described["loader"].coordinator == 0
    assert code_of(described.errors["nobody"]) == "GROUP_ID_NOT_FOUND"
    (lag,) = admin.group_lag("loader")
    assert (lag.offset, lag.log_start, lag.log_end, lag.lag, lag.owner) == (4, 0, 10, 6, None)

    plan = admin.reset_group_offsets("loader", [at], OffsetTarget("time", 1_002_000), dry_run=True)
    assert (plan[at].before, plan[at].after) == (4, 2)
    assert admin.group_offsets("loader")[at].offset == 4
    assert admin.reset_group_offsets("loader", [at], OffsetTarget("shift", 100))[at].after == 10
    assert admin.group_offsets("loader")[at].offset == 10
    both = admin.reset_group_offsets("loader", [at, ("admin-read", 1)], OffsetTarget("shift", -3))
    assert both[at].after == 7
    assert isinstance(both.errors["admin-read", 1], UserError)
    assert admin.reset_group_offsets("loader", [at], {at: 5})[at].after == 5

    assert admin.delete_group_offsets("loader", [at]).check() == {at: None}
    assert admin.group_offsets("loader").check() == {}
    gone = admin.delete_groups(["loader", "nobody"])
    assert "nobody" in gone.errors


def test_the_offsets_of_many_groups_are_read_together(admin: Admin, broker: AnyBroker) -> None:
    admin.create_topic("admin-many", 2)
    fill(broker, "admin-many", 3)
    names = [f"many-{number}" for number in range(450)]
    for number, name in enumerate(names[:3]):
        admin.alter_group_offsets(name, {("admin-many", 0): number, ("admin-many", 1): 0}).check()
    found = admin.offsets_of_groups(names)
    assert not found.errors
    assert len(found) == len(names)
    assert {at: one.offset for at, one in found["many-2"].items()} == {
        ("admin-many", 0): 2,
        ("admin-many", 1): 0,
    }
    assert found["many-3"] == {}  # the protocol does not tell an unknown group from an empty one


def test_lag_counts_only_what_is_still_there(admin: Admin, broker: AnyBroker) -> None:
    """A group whose place was deleted lags by what is left of the log, not by what it missed."""
    admin.create_topic("admin-cut", 1)
    fill(broker, "admin-cut", 6)
    admin.delete_records({("admin-cut", 0): 4})
    member = MemberDescription("m", partitions=(("admin-cut", 0), ("missing", 0)))
    group = GroupDescription("g", "Stable", members=(member,))
    found = {(one.topic, one.partition): one for one in admin.lag_of(group, {("admin-cut", 0): 1})}
    assert found["admin-cut", 0].lag == 2
    assert found["admin-cut", 0].owner == member
    assert found["missing", 0].lag is None
    assert found["missing", 0].error is not None


def test_the_cluster_its_brokers_disks_versions_and_producers(
    admin: Admin, broker: AnyBroker
) -> None:
    admin.create_topic("admin-kept", 1)
    fill(broker, "admin-kept", 3)
    cluster = admin.describe_cluster()
    assert cluster.cluster_id == admin.cluster_id()
    assert [one.address for one in cluster.brokers] == [broker.bootstrap_servers]
    assert cluster.controller == 0
    assert admin.api_versions()[0]["FETCH"][1] >= 12

    (folder,) = admin.describe_log_dirs()[0]
    size = {(one.topic, one.partition): one.size for one in folder.replicas}["admin-kept", 0]
    assert 0 < size <= folder.size
    assert code_of(admin.describe_log_dirs([5]).errors[5]) == "BROKER_NOT_AVAILABLE"

    (producer,) = admin.describe_producers([("admin-kept", 0)])["admin-kept", 0]
    assert producer.last_sequence == 2
    ends = admin.leader_epochs({("admin-kept", 0): 99})
    assert ends["admin-kept", 0].end_offset in (-1, 3)


def test_who_consumes_is_told_with_the_lag(admin: Admin, broker: AnyBroker) -> None:
    from kafka import KafkaConsumer

    admin.create_topic("admin-owned", 1)
    fill(broker, "admin-owned", 4)
    consumer = KafkaConsumer(
        "admin-owned",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="owners",
        client_id="their-client",
        auto_offset_reset="earliest",
    )
    try:
        deadline = time.monotonic() + 60
        # One that joins before it knows the topic's partitions divides none, and leaves it at that.
        while not consumer.partitions_for_topic("admin-owned") and time.monotonic() < deadline:
            time.sleep(0.1)
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(timeout_ms=200)
        consumer.commit()
        (lag,) = admin.group_lag("owners")
        assert lag.owner is not None
        assert lag.owner.client_id == "their-client"
        assert lag.owner.host == "127.0.0.1"
        refused = admin.reset_group_offsets(
            "owners", [("admin-owned", 0)], OffsetTarget("earliest")
        )
        assert code_of(refused.errors["admin-owned", 0]) == "UNKNOWN_MEMBER_ID"
        kept = admin.delete_groups(["owners"])
        assert code_of(kept.errors["owners"]) == "NON_EMPTY_GROUP"
    finally:
        consumer.close()


def test_a_group_of_the_new_protocol_is_listed_and_its_lag_told(
    admin: Admin, broker: AnyBroker
) -> None:
    """DescribeGroups does not know groups of KIP-848; where they stand is asked all the same."""
    if isinstance(broker, BrokerThread):
        pytest.skip("our broker has the classic group protocol only")
    admin.create_topic("admin-new-group", 1)
    fill(broker, "admin-new-group", 3)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "admin-new",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["admin-new-group"])
        deadline = time.monotonic() + 60
        while consumer.poll(0.2) is None:
            assert time.monotonic() < deadline, "no message came"
        consumer.commit(asynchronous=False)
        listing = admin.list_groups().groups["admin-new"]
        assert listing.kind == "consumer"
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        told = run_command(offsets.command, "check", "--group", "admin-new", *servers).output
        assert "admin-new\tadmin-new-group\t0\t1\t3\t2\t" in told
    finally:
        consumer.close()


def test_users_and_quotas(admin: Admin) -> None:
    both = [NewPassword("admin-ann", "s3cret"), NewPassword("admin-ann", "s3cret", SCRAM_SHA_256)]
    assert "s3cret" not in repr(both)
    assert admin.alter_users(both).check() == {"admin-ann": None}
    soon(lambda: set(admin.describe_users()["admin-ann"]) == {SCRAM_SHA_256, SCRAM_SHA_512})
    changed = admin.alter_users(remove=[("admin-ann", SCRAM_SHA_256), ("admin-bob", SCRAM_SHA_256)])
    assert list(changed) == ["admin-ann"]
    assert code_of(changed.errors["admin-bob"]) == "RESOURCE_NOT_FOUND"
    soon(lambda: set(admin.describe_users(["admin-ann"])["admin-ann"]) == {SCRAM_SHA_512})
    with pytest.raises(UserError, match="there is no mechanism 'PLAIN'"):
        admin.alter_users([NewPassword("admin-ann", "x", "PLAIN")])

    ann, everybody = (("user", "admin-ann"),), (("client-id", None),)
    assert admin.alter_quotas(
        {ann: {"producer_byte_rate": 1000.0}, everybody: {"consumer_byte_rate": 5e6}}
    ).check() == {ann: None, everybody: None}
    soon(lambda: admin.describe_quotas().get(ann) == {"producer_byte_rate": 1000.0})
    admin.alter_quotas({ann: {"producer_byte_rate": None}}).check()
    admin.alter_quotas({everybody: {"consumer_byte_rate": None}}).check()
    soon(lambda: ann not in admin.describe_quotas())
