"""What tools of Kafka 4 ask a cluster before they do anything: partitions page by page, which
resources have configs, elections, reassignments, features. Each test runs against our broker and
against Apache Kafka, which must say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from admin_wire import create, fresh
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.testing.wire import WireClient

UNKNOWN = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
NOT_NEEDED = CODES["ELECTION_NOT_NEEDED"]


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


@pytest.fixture
def topic(wire: WireClient) -> str:
    """A topic of five partitions."""
    return created(wire, fresh(), 5)


def created(wire: WireClient, name: str, partitions: int) -> str:
    """Apache Kafka may tell of a topic a moment after it says that it has created it."""
    assert create(wire, name, partitions=partitions).error_code == 0
    eventually(lambda: len(page(wire, name).topics[0].partitions) == partitions)
    return name


def page(
    wire: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    at = m.DescribeTopicPartitionsCursor(*cursor) if cursor is not None else None
    asked = [m.DescribeTopicPartitionsRequestTopic(name=name) for name in names]
    request = m.DescribeTopicPartitionsRequest(
        topics=asked, response_partition_limit=limit, cursor=at
    )
    return wire.ask(request, 0)


def told(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [
        (t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in answer.topics
    ]


def test_a_topic_is_described_page_by_page(wire: WireClient, topic: str) -> None:
    """Java's Admin 4.x asked for partitions with DescribeTopicPartitions; our broker did not
    serve it, so every describeTopics fell back to the metadata of everything at once."""
    first = page(wire, topic, limit=3)
    assert told(first) == [(topic, 0, [0, 1, 2])]
    at = (first.next_cursor.topic_name, first.next_cursor.partition_index)
    assert at == (topic, 3)
    second = page(wire, topic, limit=3, cursor=at)
    assert told(second) == [(topic, 0, [3, 4])]
    assert second.next_cursor is None
    (partition, _) = second.topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, (0,), (0,))
    assert partition.eligible_leader_replicas == ()
    assert second.topics[0].topic_authorized_operations == 3576


def test_pages_go_from_topic_to_topic(wire: WireClient) -> None:
    name = fresh()
    names = [f"{name}{letter}" for letter in "abc"]
    for each in names:
        created(wire, each, 2)
    first = page(wire, *reversed(names), limit=2)
    assert told(first) == [(names[0], 0, [0, 1])]
    assert first.next_cursor == m.DescribeTopicPartitionsCursor(names[1], 0)
    rest = page(wire, *names, limit=3, cursor=(names[1], 1))
    assert told(rest) == [(names[1], 0, [1]), (names[2], 0, [0, 1])]
    assert rest.next_cursor is None
    everything = page(wire)
    assert set(names) <= {t.name for t in everything.topics}
    assert [t.name for t in everything.topics] == sorted(t.name for t in everything.topics)


def test_what_is_not_there_is_said_by_name(wire: WireClient, topic: str) -> None:
    assert told(page(wire, topic, "nope")) in (
        [(topic, 0, [0, 1, 2, 3, 4]), ("nope", UNKNOWN, [])],
        [("nope", UNKNOWN, []), (topic, 0, [0, 1, 2, 3, 4])],
    )


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_limit_below_one_is_one(wire: WireClient, topic: str, limit: int) -> None:
    assert told(page(wire, topic, limit=limit)) == [(topic, 0, [0])]


def test_a_cursor_of_another_topic_or_below_zero_is_refused(wire: WireClient, topic: str) -> None:
    for cursor in (("zzz", 0), (topic, -3)):
        answer = page(wire, topic, cursor=cursor)
        assert told(answer) == [(topic, CODES["INVALID_REQUEST"], [])]
    assert page(wire, cursor=(topic, -3)).topics == ()


def test_a_cursor_behind_the_last_partition_goes_on(wire: WireClient, topic: str) -> None:
    answer = page(wire, topic, cursor=(topic, 30))
    assert told(answer) == [(topic, 0, [])]
    assert answer.next_cursor is None


def resources(wire: WireClient, version: int, *kinds: int) -> Any:
    return wire.ask(m.ListConfigResourcesRequest(resource_types=kinds), version)


def test_resources_with_configs_are_listed(wire: WireClient, topic: str) -> None:
    answer = resources(wire, 1)
    found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
    assert {(2, topic), (4, "0"), (8, "0")} <= found
    only = resources(wire, 1, 2)
    assert {each.resource_type for each in only.config_resources} == {2}
    assert resources(wire, 0).config_resources == (), "client metrics, of which there are none"
    assert resources(wire, 1, 7).error_code == CODES["UNSUPPORTED_VERSION"]


def elect(wire: WireClient, kind: int, *topics: tuple[str, list[int]], version: int = 2) -> Any:
    asked = [m.ElectLeadersRequestTopic(name, indexes) for name, indexes in topics]
    request = m.ElectLeadersRequest(
        election_type=kind, topic_partitions=asked or None, timeout_ms=5000
    )
    return wire.ask(request, version)


def outcomes(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (t.topic, p.partition_id, p.error_code)
        for t in answer.replica_election_results
        for p in t.partition_result
    ]


@pytest.mark.parametrize("kind", [0, 1])
def test_a_leader_that_leads_needs_no_election(wire: WireClient, topic: str, kind: int) -> None:
    answer = elect(wire, kind, (topic, [0, 9]), ("nope", [0]))
    assert answer.error_code == 0
    assert outcomes(answer) == [(topic, 0, NOT_NEEDED), (topic, 9, UNKNOWN), ("nope", 0, UNKNOWN)]
    assert outcomes(elect(wire, kind)) == [], "of all partitions only those that failed are told"


def test_an_election_of_another_kind_is_refused(wire: WireClient, topic: str) -> None:
    answer = elect(wire, 5, (topic, [0]))
    code = CODES["INVALID_REQUEST"]
    assert (answer.error_code, outcomes(answer)) == (code, [(topic, 0, code)])
    assert elect(wire, 5).error_code == code
    assert outcomes(elect(wire, 0, (topic, [0]), version=0)) == [(topic, 0, NOT_NEEDED)]


def test_nothing_is_being_reassigned(wire: WireClient, topic: str) -> None:
    named = [m.ListPartitionReassignmentsRequestTopic(topic, [0, 9])]
    for topics in (None, named):
        answer = wire.ask(m.ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (answer.error_code, answer.topics) == (0, ())


def test_each_partition_of_a_plan_is_answered(wire: WireClient, topic: str) -> None:
    """An operator moved partitions of a broker that is a cluster of its own. Kafka's tool reported
    "The server returned too less results. Expected 2 but received 0": the reason stood in the head
    of the answer only, and Java's clients read it at each partition."""
    moves = [m.AlterPartitionReassignmentsRequestPartition(i, [0, 99]) for i in (0, 1)]
    asked = m.AlterPartitionReassignmentsRequestTopic(topic, moves)
    answer = wire.ask(m.AlterPartitionReassignmentsRequest(topics=[asked]), 0)
    (answered,) = answer.responses
    assert answered.name == topic
    assert [each.partition_index for each in answered.partitions] == [0, 1]
    assert all(each.error_code and each.error_message for each in answered.partitions)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("level", [1, 0, -1])
def test_a_feature_that_there_is_not_has_no_level(
    wire: WireClient, version: int, level: int
) -> None:
    asked = m.UpdateFeaturesRequestFeature(feature="nope", max_version_level=level)
    answer = wire.ask(m.UpdateFeaturesRequest(feature_updates=[asked]), version)
    assert answer.error_code == CODES["INVALID_UPDATE_VERSION"]
    assert "nope" in (answer.error_message or "")
    assert answer.results == ()
    assert wire.ask(m.UpdateFeaturesRequest(feature_updates=[]), version).error_code == 0
