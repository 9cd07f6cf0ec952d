"""The topics that a group of consumers reads, from the subscriptions of its members."""

from __future__ import annotations

from collections.abc import Callable

from tallymark.errors import RemoteProtocolError
from tallymark.groups.group import CONSUMER, Group
from tallymark.protocol.consumer_protocol import decode_subscription


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics of all members; None where that cannot be known: another protocol type, or a
    member whose metadata cannot be read."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics = set[str]()
    for member in group.members.values():
        try:
            topics.update(decode_subscription(member.metadata_of(group.protocol)).topics)
        except RemoteProtocolError:
            return None
    return frozenset(topics)


def may_be_reading(group: Group) -> Callable[[str], bool]:
    """A function that returns whether a member may be reading a topic. It is for many topics, since
    the subscriptions of all members are decoded once. Where a subscription cannot be decoded the
    answer is True."""
    topics = subscribed_topics(group)
    if topics is None:
        return lambda topic: group.protocol_type == CONSUMER
    return lambda topic: topic in topics
