"""Topics of the target are looked up by name, and created as the source's are."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from tallymark.client.admin.results import Results
from tallymark.client.admin.topic_admin import CreatedTopic, NewTopic
from tallymark.client.admin.topics import PartitionDescription, TopicDescription
from tallymark.client.core.partition_layout import Layout
from tallymark.deployment import Mirror
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.copying.topics import CREATED_TOGETHER, TargetTopics
from tallymark.mirror.source.source import SourceBatch
from tallymark.mirror.target.ready_batch import Origin
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.records.writer import encode_batch


class MemoryAdmin:
    """The topics of one cluster: name -> partitions. ``refused``: name -> what is answered;
    ``never`` are those that cannot be created."""

    def __init__(self, **topics: int) -> None:
        self.topics_there = topics
        self.refused: dict[str, str] = {}
        self.asked: list[str] = []
        self.created: dict[str, Mapping[str, str]] = {}
        self.never: set[str] = set()
        self.together: list[list[str]] = []
        self.alone: list[str] = []

    def describe_topics(self, names: Iterable[str]) -> Results[str, TopicDescription]:
        found: dict[str, TopicDescription | KafkaError] = {}
        for name in names:
            self.asked.append(name)
            code = self.refused.get(name, "UNKNOWN_TOPIC_OR_PARTITION")
            parts = tuple(
                PartitionDescription(number, 0, 0, (0,), (0,), ())
                for number in range(self.topics_there.get(name, 0))
            )
            error = KafkaError(CODES[code], name)
            found[name] = TopicDescription(name, uuid.UUID(int=1), False, parts) if parts else error
        return Results.of(found)

    def create_topics(self, topics: Iterable[NewTopic]) -> Results[str, CreatedTopic]:
        done: dict[str, CreatedTopic | KafkaError] = {}
        together = list(topics)
        self.together.append([topic.name for topic in together])
        for topic in together:
            if topic.name in self.never:
                done[topic.name] = KafkaError(CODES["POLICY_VIOLATION"], topic.name)
                continue
            self.created[topic.name] = topic.configs
            self.topics_there[topic.name] = topic.partitions
            done[topic.name] = CreatedTopic(topic.name)
        return Results.of(done)

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, if_not_exists: bool
    ) -> None:
        assert if_not_exists
        self.alone.append(name)
        if name in self.never:
            raise KafkaError(CODES["POLICY_VIOLATION"], name)
        self.created[name] = configs
        self.topics_there[name] = partitions


class Configs:
    def configs(self, topic: str) -> Mapping[str, str]:
        return {"cleanup.policy": "compact", "min.insync.replicas": "2"}


def topics_of(source: MemoryAdmin, target: MemoryAdmin, **settings: Any) -> TargetTopics:
    mirror = Mirror(source="dc1", target="all", **settings)
    return TargetTopics(mirror, cast("Any", Configs()), cast("Any", source), cast("Any", target))


def test_each_topic_is_asked_for_by_name_and_once() -> None:
    """All topics of both clusters were listed for each new one: with 3,000 of them most of the
    time went there."""
    source = MemoryAdmin(**{f"t{number}": 2 for number in range(50)})
    target = MemoryAdmin()
    topics = topics_of(source, target)
    for _ in range(3):
        assert topics.layout("t7", 1) == Layout("t7", 2, True)
    assert set(source.asked) == {"t7"}
    assert set(target.asked) == {"t7"}
    assert target.created == {"t7": {"cleanup.policy": "compact"}}


def test_a_target_with_fewer_partitions_is_not_kept() -> None:
    topics = topics_of(MemoryAdmin(t=4), MemoryAdmin(t=3))
    assert topics.layout("t", 0) == Layout("t", 3, False)


def test_a_topic_that_neither_has_is_unknown() -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        topics_of(MemoryAdmin(), MemoryAdmin()).layout("t", 0)


def test_a_topic_that_we_may_not_see_is_created_if_it_is_not_there() -> None:
    target = MemoryAdmin()
    target.refused["t"] = "TOPIC_AUTHORIZATION_FAILED"
    assert topics_of(MemoryAdmin(t=1), target).layout("t", 0) == Layout("t", 1, True)


def test_another_error_is_not_taken_for_a_topic_that_is_not_there() -> None:
    target = MemoryAdmin()
    target.refused["t"] = "LEADER_NOT_AVAILABLE"
    with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
        topics_of(MemoryAdmin(t=1), target).layout("t", 0)
    assert target.created == {}


def batch_of(topic: str, *, producer_id: int = -1) -> SourceBatch:
    (batch,) = split_batches(encode_batch([(None, b"x", (), 1)], producer_id=producer_id))
    return SourceBatch(topic, 0, 0, batch)


def origin_of(producer_id: int) -> Origin:
    return frozenset({"all"}) if producer_id == 77 else frozenset()


def test_topics_that_are_about_to_be_copied_are_created_together() -> None:
    """Each topic was created when its first message came, with a request and a wait of its own: a
    new mirror of 3,000 topics needed five to ten minutes for that alone."""
    names = [f"t{number}" for number in range(CREATED_TOGETHER + 20)]
    source, target = MemoryAdmin(**dict.fromkeys(names, 3)), MemoryAdmin(t5=3)
    topics = topics_of(source, target)
    waiting = [batch_of(name) for name in names for _ in range(3)]
    for piece in waiting:
        if topics.is_new(piece.topic):
            topics.prepare(waiting, origin_of, "all")
        assert topics.layout(piece.topic, 2) == Layout(piece.topic, 3, True)
    assert [len(each) for each in target.together] == [CREATED_TOGETHER - 1, 20]
    assert not target.alone
    assert target.created["t7"] == {"cleanup.policy": "compact"}
    assert "t5" not in target.created


def test_a_topic_whose_messages_came_from_the_target_is_not_created() -> None:
    source, target = MemoryAdmin(a=1, b=1, back=1), MemoryAdmin()
    topics = topics_of(source, target)
    topics.prepare(
        [batch_of("a"), batch_of("back", producer_id=77), batch_of("b")], origin_of, "all"
    )
    assert target.together == [["a", "b"]]
    assert topics.is_new("back")


def test_one_topic_that_cannot_be_created_does_not_concern_the_others() -> None:
    source, target = MemoryAdmin(a=1, bad=1, b=1), MemoryAdmin()
    target.never.add("bad")
    topics = topics_of(source, target)
    topics.prepare([batch_of("a"), batch_of("bad"), batch_of("b")], origin_of, "all")
    assert topics.layout("a", 0) == Layout("a", 1, True)
    assert topics.layout("b", 0) == Layout("b", 1, True)
    with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
        topics.layout("bad", 0)
    assert target.alone == ["bad"]


def test_a_topic_that_neither_cluster_has_any_more_is_left_to_its_own_request() -> None:
    topics = topics_of(MemoryAdmin(a=1), target := MemoryAdmin())
    topics.prepare([batch_of("a"), batch_of("gone")], origin_of, "all")
    assert target.together == [["a"]]
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        topics.layout("gone", 0)
