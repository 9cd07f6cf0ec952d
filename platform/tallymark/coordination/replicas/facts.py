"""What the nodes hold that changes of partitions are about, and the transaction for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.cluster.broker_epochs import check_epoch, epochs_of
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.nodes import Check, SetData, Step
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.registry import (
    TopicAssignment,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Change, ChangeAssignment, ChangeState, PartitionState


@dataclass(frozen=True, slots=True)
class Facts:
    """The nodes as they were read: a text says why a node cannot be used."""

    states: Mapping[TopicPartition, PartitionState | str]
    topics: Mapping[str, TopicAssignment | str]
    epochs: Mapping[int, int]

    def state_of(self, partition: TopicPartition) -> PartitionState | None:
        """None where it was not read, or cannot be used."""
        found = self.states.get(partition)
        return found if isinstance(found, PartitionState) else None


NOTHING_READ: Final = Facts({}, {}, {})


def read_facts(zookeeper: ZooKeeper, changes: Sequence[Change]) -> Facts:
    """Two or three round trips, however many changes."""
    keys = list(dict.fromkeys(change.partition for change in changes))
    nodes = zookeeper.read_many([paths.partition_state(*key) for key in keys])
    states: dict[TopicPartition, PartitionState | str] = {}
    for key, node in zip(keys, nodes, strict=True):
        if node is None:
            states[key] = "the partition is gone"
            continue
        try:
            states[key] = decode_state(paths.partition_state(*key), node.data, node.version)
        except MalformedNodeError as error:
            states[key] = str(error)
    names = list(dict.fromkeys(each.partition[0] for each in changes if _is_of_assignment(each)))
    topics: dict[str, TopicAssignment | str] = {}
    for name, node in zip(
        names, zookeeper.read_many([paths.topic(name) for name in names]), strict=True
    ):
        if node is None:
            topics[name] = "the topic is gone"
            continue
        try:
            topics[name] = decode_topic(name, node.data, node.version)
        except MalformedNodeError as error:
            topics[name] = str(error)
    joining = {
        broker for change in changes if isinstance(change, ChangeState) for broker in change.joining
    }
    return Facts(states, topics, epochs_of(zookeeper, sorted(joining)))


def refusal(change: Change, facts: Facts) -> str | None:
    """Why the change does not hold; None where it does."""
    state = facts.states[change.partition]
    if isinstance(state, str):
        return state
    if state.version != change.expected:
        return f"its state is of version {state.version}, not {change.expected}"
    if isinstance(change, ChangeAssignment):
        topic = facts.topics[change.partition[0]]
        if isinstance(topic, str):
            return topic
        if change.partition[1] not in topic.assignment:
            return "the partition is gone"
        found = topic.of(change.partition[1])
        return None if found == change.before else f"its replicas are {list(found.replicas)} by now"
    for broker, epoch in sorted(stale_of(change, facts).items()):
        if facts.epochs.get(broker) == epoch:
            return f"broker {broker} is no replica any more, and may not join"
        return f"broker {broker} has started again, and may not join with what it had before"
    return None


def stale_of(change: Change, facts: Facts) -> Mapping[int, int]:
    """Those that were to join in an epoch that is over, or that are not assigned any more: their
    logs are not what the leader knows of them. Of facts that were read for the change."""
    if not isinstance(change, ChangeState) or facts is NOTHING_READ or not change.joining:
        return {}
    topic = facts.topics[change.partition[0]]
    assigned: Sequence[int] = ()
    if isinstance(topic, TopicAssignment):
        assigned = topic.assignment.get(change.partition[1], ())
    return {
        broker: epoch
        for broker, epoch in change.joining.items()
        if facts.epochs.get(broker) != epoch or broker not in assigned
    }


def _is_of_assignment(change: Change) -> bool:
    """Whether it is decided from the topic's node, too."""
    return isinstance(change, ChangeAssignment) or bool(change.joining)


def is_at_once(change: Change, facts: Facts) -> bool:
    """Whether clients wait for the change: the leader or its epoch changes."""
    before = facts.states[change.partition]
    return (
        change.state is not None
        and isinstance(before, PartitionState)
        and (change.state.leader, change.state.leader_epoch) != (before.leader, before.leader_epoch)
    )


def steps_of(changes: Sequence[Change], facts: Facts) -> list[Step]:
    """The steps that write changes which hold, each partition at most once."""
    steps: list[Step] = []
    epochs = {
        (broker, epoch)
        for change in changes
        if isinstance(change, ChangeState)
        for broker, epoch in change.joining.items()
    }
    steps += [check_epoch(*each) for each in sorted(epochs)]
    topics: dict[str, TopicAssignment] = {}
    for change in changes:
        if isinstance(change, ChangeAssignment):
            name, partition = change.partition
            topic = topics.get(name, facts.topics[name])
            assert isinstance(topic, TopicAssignment), "the change holds"
            topics[name] = topic.with_partition(partition, change.assignment)
    steps += [
        SetData(paths.topic(name), encode_topic(topic), topic.version)
        for name, topic in topics.items()
    ]
    joined = {each.partition[0] for each in changes if _is_of_assignment(each)} - topics.keys()
    for name in sorted(joined):
        topic = facts.topics[name]
        assert isinstance(topic, TopicAssignment), "the change holds"
        steps.append(Check(paths.topic(name), topic.version))
    for change in changes:
        path = paths.partition_state(*change.partition)
        if change.state is None:
            steps.append(Check(path, change.expected))
        else:
            steps.append(SetData(path, encode_state(change.state), change.expected))
    return steps
