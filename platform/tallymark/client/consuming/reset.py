"""Where consumption goes on when the position cannot: the reset policy.

::

    never consumed            smallest: start of the log       largest: its end
    below the start           smallest: start (gap: expired)   largest: end (gap: expired)
    above the end             smallest: start                  largest: end   (gap: truncated)
    cut below the position    where the log was cut (gap: truncated); see KIP-320
    the topic was made again  its first offset, 0 (gap: truncated)

The first line goes by ``auto_offset_reset``, the next two by ``out_of_range`` (unless given: the
same), the last by itself. Where the policy is ``none`` an OffsetOutOfRangeError ends the connector:
the application decides, and begins again with ``seek`` or another policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tallymark.client.consuming.brokers import FetchClient
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.message import Gap
from tallymark.errors import (
    CODES,
    KafkaError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    TallymarkError,
)
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition

POLICIES: Final = {"smallest": EARLIEST, "largest": LATEST}
NONE: Final = "none"


class Reset(NamedTuple):
    """Go on at ``offset``; ``gap`` says what that leaves out or repeats."""

    offset: int
    gap: Gap | None


Answered: TypeAlias = Callable[[PartitionProgress, Reset | TallymarkError], None]
"""Is called with a partition and where it goes on, or why that is not known."""


def at_first(client: FetchClient, item: PartitionProgress, policy: str) -> Reset:
    """The group has no position: begin where the policy says. OffsetOutOfRangeError: it is none."""
    if policy == NONE:
        raise _undecided(client, item, None)
    return Reset(_offset(client, item, POLICIES[policy]), None)


def each_at_first(
    client: FetchClient, policy: str, items: Sequence[PartitionProgress], answered: Answered
) -> None:
    """As :func:`at_first`, of many partitions together, where the policy says where to begin."""
    by_place = {(item.topic, item.partition): item for item in items}

    def found(place: TopicPartition, offset: int | TallymarkError) -> None:
        reset = offset if isinstance(offset, TallymarkError) else Reset(offset, None)
        answered(by_place[place], reset)

    client.each_offset(by_place.keys(), POLICIES[policy], found)


def after_out_of_range(
    client: FetchClient, item: PartitionProgress, position: int, policy: str
) -> Reset:
    """The log has no such offset: it has expired, or the log was cut below it."""
    start, end = _offset(client, item, EARLIEST), _offset(client, item, LATEST)
    if policy == NONE and not start <= position <= end:
        raise _undecided(client, item, position)
    target = start if policy == "smallest" else end
    if position > end:
        return Reset(target, Gap(item.topic, item.partition, end, position, "truncated"))
    if position < start:
        return Reset(target, Gap(item.topic, item.partition, position, target, "expired"))
    return Reset(position, None)  # it was out of range, and is no longer: try again


def after_truncation(
    client: FetchClient,
    item: PartitionProgress,
    position: int,
    error: LogTruncatedError,
    policy: str,
) -> Reset:
    """The log was cut below the position; other messages may stand there now, and none of them
    must be left out, whatever the policy."""
    cut = 0 if _is_made_again(client, item) else error.diverging_offset
    if not 0 <= cut < position:  # the leader could not say where
        return after_out_of_range(client, item, position, policy)
    return Reset(cut, Gap(item.topic, item.partition, cut, position, "truncated"))


def _is_made_again(client: FetchClient, item: PartitionProgress) -> bool:
    """Whether the topic was deleted and created again: what looks like a cut is another log."""
    if item.topic_id == ZERO_UUID:
        return False
    now = client.topics().get(item.topic)
    return now is not None and now.topic_id not in (ZERO_UUID, item.topic_id)


def _undecided(
    client: FetchClient, item: PartitionProgress, position: int | None
) -> OffsetOutOfRangeError:
    start, end = _offset(client, item, EARLIEST), _offset(client, item, LATEST)
    return OffsetOutOfRangeError(item.topic, item.partition, position, start, end)


def _offset(client: FetchClient, item: PartitionProgress, time: int) -> int:
    offsets = client.get_offsets_before(item.topic, item.partition, time)
    if not offsets:
        raise KafkaError(CODES["OFFSET_NOT_AVAILABLE"], f"{item.topic}-{item.partition}")
    return offsets[0]
