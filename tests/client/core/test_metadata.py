from __future__ import annotations

import uuid

from tallymark.client.core.metadata import Leader, Metadata
from tallymark.errors import CODES
from tallymark.net.addresses import Address
from tallymark.protocol.messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


def answer(epoch: int, leader: int, topic_id: uuid.UUID = ONE, error: int = 0) -> MetadataResponse:
    parts = (MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch),)
    topic = MetadataResponseTopic(
        name="t", topic_id=topic_id, error_code=error, partitions=() if error else parts
    )
    brokers = (MetadataResponseBroker(node_id=leader, host="h", port=9),)
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=3, topics=(topic,))


def test_what_was_learned() -> None:
    metadata = Metadata()
    assert metadata.topic("t") is None
    metadata.update(answer(4, 1))
    info = metadata.topic("t")
    assert info is not None
    assert (info.name, info.topic_id, info.partitions) == ("t", ONE, (0,))
    assert metadata.leader("t", 0) == Leader(1, 4)
    assert metadata.leader("t", 1) is None
    assert metadata.brokers == {1: Address("h", 9)}
    assert (metadata.cluster_id, metadata.controller) == ("c", 3)


def test_an_older_epoch_does_not_replace_a_newer_one() -> None:
    metadata = Metadata()
    metadata.update(answer(4, 1))
    metadata.update(answer(3, 2))
    assert metadata.leader("t", 0) == Leader(1, 4)
    metadata.update(answer(5, 2))
    assert metadata.leader("t", 0) == Leader(2, 5)


def test_a_topic_made_anew_begins_with_its_own_epochs() -> None:
    metadata = Metadata()
    metadata.update(answer(4, 1))
    metadata.update(answer(0, 2, TWO))
    assert metadata.leader("t", 0) == Leader(2, 0)


def test_errors_keep_what_is_known_unless_the_topic_is_gone() -> None:
    metadata = Metadata()
    metadata.update(answer(4, 1))
    metadata.update(answer(0, 1, error=CODES["LEADER_NOT_AVAILABLE"]))
    assert metadata.leader("t", 0) == Leader(1, 4)
    assert metadata.error("t") == CODES["LEADER_NOT_AVAILABLE"]
    metadata.update(answer(0, 1, error=CODES["UNKNOWN_TOPIC_OR_PARTITION"]))
    assert metadata.topic("t") is None
    assert metadata.error("t") == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_whole_list_forgets_what_is_not_on_it() -> None:
    metadata = Metadata()
    metadata.update(answer(1, 1))
    metadata.update(MetadataResponse(), whole=True)
    assert metadata.topics() == {}
