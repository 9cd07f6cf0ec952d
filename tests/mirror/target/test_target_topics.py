"""Topics of the target are looked up by name, and created as the source's are."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from tallymark.client.admin.results import Results
from tallymark.client.admin.topics import PartitionDescription, TopicDescription
from tallymark.client.core.partition_layout import Layout
from tallymark.deployment import Mirror
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.copying.topics import TargetTopics


class MemoryAdmin:
    """The topics of one cluster: name -> partitions. ``refused``: name -> what is answered."""

    def __init__(self, **topics: int) -> None:
        self.topics_there = topics
        self.refused: dict[str, str] = {}
        self.asked: list[str] = []
        self.created: dict[str, Mapping[str, str]] = {}

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

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, if_not_exists: bool
    ) -> None:
        assert if_not_exists
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
