"""What a broker is to a partition with several replicas, by what the image of the cluster says."""

from __future__ import annotations

import uuid

import pytest

from tallymark.broker.leadership.roles import (
    Duty,
    Role,
    changes,
    counts_as_registered,
    role_of,
    roles_in,
)
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.replication.model import NO_LEADER

ME = 1
ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
LEADER = Role(Duty.LEADER, ME, 5, ID)
IDLE = Role(Duty.IDLE, NO_LEADER, 5, ID)


@pytest.mark.parametrize(
    ("leader", "replicas", "counts", "role"),
    [
        (ME, (1, 2, 3), True, LEADER),
        (ME, (2, 1), True, LEADER),
        (2, (1, 2, 3), True, Role(Duty.FOLLOWER, 2, 5, ID)),
        (2, (1, 2, 3), False, Role(Duty.FOLLOWER, 2, 5, ID)),
        (NO_LEADER, (1, 2, 3), True, IDLE),
        (2, (2, 3), True, None),
        (ME, (1,), True, None),
    ],
)
def test_the_role_by_the_state(
    leader: int, replicas: tuple[int, ...], counts: bool, role: Role | None
) -> None:
    partition = PartitionImage.of(leader, 5, replicas, replicas)
    assert role_of(partition, ID, ME, counts=counts) == role


def test_a_lead_of_the_process_before_is_not_taken_up() -> None:
    """After a power failure a broker comes back with less than it had. The state still names it as
    the leader: if it led with what is left, the followers would cut what was acknowledged."""
    assert role_of(PartitionImage.of(ME, 5, (1, 2), (1, 2)), ID, ME, counts=False) == IDLE


@pytest.mark.parametrize(
    ("shown", "epoch", "counts"), [(7, 7, True), (5, 7, False), (9, 7, False), (-1, -1, False)]
)
def test_an_image_counts_if_it_shows_the_present_registration(
    shown: int, epoch: int, counts: bool
) -> None:
    image = MetadataImage("c", brokers={ME: BrokerImage(ME, {}, epoch=shown)})
    assert counts_as_registered(image, ME, epoch) is counts
    assert not counts_as_registered(MetadataImage("c"), ME, epoch)


def test_a_role_ends_with_its_leader_epoch_or_its_topic() -> None:
    before = {("t", 0): LEADER, ("t", 1): LEADER, ("t", 2): LEADER, ("t", 3): LEADER}
    after = {
        ("t", 0): LEADER,
        ("t", 1): LEADER._replace(epoch=6),
        ("t", 2): LEADER._replace(topic_id=OTHER_ID),
        ("t", 4): IDLE,
    }
    found = changes(before, after)
    assert found.same == {("t", 0): LEADER}
    assert set(found.over) == {("t", 1), ("t", 2), ("t", 3)}
    assert set(found.begun) == {("t", 1), ("t", 2), ("t", 4)}


def test_the_roles_of_topics_with_one_replica_are_none() -> None:
    alone = TopicImage("alone", ID, (PartitionImage.of(ME, 0, (1,), (1,)),))
    both = TopicImage(
        "both",
        OTHER_ID,
        (PartitionImage.of(2, 3, (1, 2), (1, 2)), PartitionImage.of(2, 3, (2, 3), (2, 3))),
    )
    found = dict(roles_in([alone, both], ME, counts=True))
    assert found == {("both", 0): Role(Duty.FOLLOWER, 2, 3, OTHER_ID)}
