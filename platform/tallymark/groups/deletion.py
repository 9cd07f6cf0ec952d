"""Deletes offsets and groups: by request, by age, or with their topic. Always by tombstones.

What a transaction has committed and is not decided is deleted by request, and with its topic: a
tombstone is newer. It has no age: a tombstone for the offset before it would undo the commit.

Age (KIP-211) counts from the moment a group became empty. For a group without members (a consumer
that assigned its partitions itself) it counts from each commit. While a group of consumers is
stable, it counts from the commit for topics that no member is subscribed to any more. A retention
time that the client sent with the commit has priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallymark.errors import CODES, RemoteProtocolError
from tallymark.groups.group import CONSUMER, Group, State
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    encode_key,
)
from tallymark.groups.state import GroupsState
from tallymark.protocol.consumer_protocol import decode_subscription


def decide_forget_topic(state: OffsetsState, topic: str) -> list[GroupRecord]:
    """Tombstones for every commit on a deleted topic: a new topic of that name must not be resumed
    where the old one ended."""
    return [(encode_key(key), None) for key in dict.fromkeys(state.of_topic(topic))]


def decide_delete_group(state: GroupsState, group: Group) -> tuple[list[GroupRecord], int]:
    """Tombstones for a group and its offsets, and 0, NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND."""
    if not group.vacant:
        return [], CODES["NON_EMPTY_GROUP"]
    if not state.knows(group.group_id):
        return [], CODES["GROUP_ID_NOT_FOUND"]
    return _whole_group(state, group.group_id), 0


def decide_delete_offsets(
    state: GroupsState, group: Group, places: Sequence[tuple[str, int]]
) -> tuple[list[GroupRecord], int, list[int]]:
    """Tombstones for offsets, an error code for the request as a whole, and one for each
    partition."""
    if group.vacant and not state.knows(group.group_id):
        return [], CODES["GROUP_ID_NOT_FOUND"], []
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        return [], CODES["NON_EMPTY_GROUP"], []
    records: list[GroupRecord] = []
    codes: list[int] = []
    is_subscribed = _may_be_reading(group)
    for topic, partition in places:
        subscribed = is_subscribed(topic)
        codes.append(CODES["GROUP_SUBSCRIBED_TO_TOPIC"] if subscribed else 0)
        if not subscribed and _is_there(state, group.group_id, topic, partition):
            records.append(_tombstone(group.group_id, topic, partition))
    return records, 0, codes


def _is_there(state: GroupsState, group: str, topic: str, partition: int) -> bool:
    found = state.offsets.get(group, topic, partition)
    return found is not None or state.offsets.pending.is_pending(group, topic, partition)


def decide_expire(
    state: GroupsState, group: Group, retention_ms: int, wall_ms: int
) -> list[GroupRecord]:
    """Tombstones for what is too old. An empty group is deleted with its last offset."""
    since = _age_counts_from(group)
    if since is None:
        return []
    pending = state.offsets.pending
    kept = int(pending.has(group.group_id))
    records: list[GroupRecord] = []
    for topic, partition, committed in state.offsets.of_group(group.group_id):
        begin = since(topic, committed)
        if committed.expire_timestamp >= 0:
            expired = wall_ms >= committed.expire_timestamp and begin is not None
        else:
            expired = begin is not None and wall_ms - begin >= retention_ms
        expired = expired and not pending.is_pending(group.group_id, topic, partition)
        if expired:
            records.append(_tombstone(group.group_id, topic, partition))
        kept += not expired
    if not kept and group.vacant and group.group_id in state.metadata:
        records.append((encode_key(GroupKey(group.group_id)), None))
    return records


def _age_counts_from(group: Group) -> Callable[[str, CommittedOffset], int | None] | None:
    """The moment (UTC) from which an offset's age counts: None for one that does not age now."""
    if group.state is State.EMPTY:
        # Without a protocol type it never had members; old records do not hold the time.
        emptied = group.state_since_ms if group.protocol_type is not None else -1
        return lambda topic, offset: emptied if emptied >= 0 else offset.commit_timestamp
    topics = _subscribed_topics(group)
    if group.state is not State.STABLE or topics is None:
        return None
    return lambda topic, offset: None if topic in topics else offset.commit_timestamp


def _may_be_reading(group: Group) -> Callable[[str], bool]:
    """A function that returns whether a member may be reading a topic. It is for many topics, since
    the subscriptions of all members are decoded once. Where a subscription cannot be decoded the
    answer is True."""
    topics = _subscribed_topics(group)
    if topics is None:
        return lambda topic: group.protocol_type == CONSUMER
    return lambda topic: topic in topics


def _subscribed_topics(group: Group) -> frozenset[str] | None:
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


def _whole_group(state: GroupsState, group_id: str) -> list[GroupRecord]:
    places = {(topic, partition) for topic, partition, _ in state.offsets.of_group(group_id)}
    places.update(state.offsets.pending.of_group(group_id))
    records = [_tombstone(group_id, *place) for place in sorted(places)]
    if group_id in state.metadata:
        records.append((encode_key(GroupKey(group_id)), None))
    return records


def _tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return encode_key(OffsetKey(group_id, topic, partition)), None
