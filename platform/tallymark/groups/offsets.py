"""Committed offsets: which clients may commit, and the state after that.

A commit runs in three steps, so that a restart needs no second code path::

    decide_commit(...)   -> records to append, one error code per partition
    (the caller appends the records to the group's partition of __consumer_offsets)
    state.replay(record) -> the state changes; a restart replays the whole partition
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import CODES
from tallymark.groups.group import Group, GroupConfig, Now, State
from tallymark.groups.inputs import Decision
from tallymark.groups.membership import check_generation
from tallymark.groups.pending import NO_PRODUCER, PendingOffsets, Written
from tallymark.groups.records import (
    CommittedOffset,
    GroupRecord,
    OffsetKey,
    encode_key,
    encode_value,
)
from tallymark.groups.transition import Transition

_Place = tuple[str, int]
_FOR_EVER: Final = 2**63 - 1


@dataclass(slots=True)
class OffsetsState:
    """The committed offsets of the groups that one partition owns. Only :meth:`replay` and
    :meth:`end` write. ``pending``: those of transactions that are not over."""

    _groups: dict[str, dict[_Place, CommittedOffset]] = field(
        default_factory=dict[str, dict[_Place, CommittedOffset]]
    )

    pending: PendingOffsets = field(default_factory=PendingOffsets)

    def replay(self, key: OffsetKey, committed: CommittedOffset | None, written: Written) -> None:
        """Apply one record, in log order; None deletes."""
        if written.producer_id != NO_PRODUCER:
            self.pending.add(key, committed, written)
        else:
            self.pending.drop_older(key, written.offset)
            self._put(key, committed)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Apply a marker, in log order: what is pending in the producer's transaction comes into
        force, or is dropped."""
        for key, pending in self.pending.end(producer_id).items():
            if commit:
                self.pending.drop_older(key, pending.at)
                self._put(key, pending.committed)

    def _put(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        place = (key.topic, key.partition)
        if committed is not None:
            self._groups.setdefault(key.group, {})[place] = committed
        elif (offsets := self._groups.get(key.group)) is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._groups[key.group]

    def groups(self) -> Iterator[str]:
        """The groups that have committed something."""
        return iter(tuple(self._groups))

    def has(self, group: str) -> bool:
        """Whether the group has committed something."""
        return group in self._groups

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """What the group committed there, or None."""
        return self._groups.get(group, {}).get((topic, partition))

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Everything the group committed: topic, partition, offset; sorted."""
        for (topic, partition), committed in sorted(
            self._groups.get(group, {}).items(), key=lambda item: item[0]
        ):
            yield topic, partition, committed

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Every commit of any group on the topic, also those that are pending."""
        yield from self.pending.of_topic(topic)
        for group, offsets in self._groups.items():
            for name, partition in offsets:
                if name == topic:
                    yield OffsetKey(group, name, partition)


@dataclass(frozen=True, slots=True)
class Commit:
    """One partition of a commit request. ``error`` is set where the caller refuses it already
    (an unknown partition)."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    error: int = 0


@dataclass(frozen=True, slots=True)
class Committer:
    """The client that commits. Without id and generation (-1): a consumer that has assigned its
    partitions itself, or a tool."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    retention_ms: int = -1
    """How long to keep the offsets; in versions 2 to 4, else -1."""


def decide_commit(
    group: Group,
    committer: Committer,
    commits: Sequence[Commit],
    config: GroupConfig,
    now: Now,
    max_metadata: int,
) -> Decision:
    """The records that a commit appends, and an error code for each of ``commits``. A commit also
    counts as a heartbeat."""
    refused = check_committer(group, committer)
    records, codes = _records(group, refused, committer, commits, now, max_metadata)
    transition = Transition(group, config, now)
    member = transition.group.members.get(committer.member_id)
    if not refused and member is not None:
        transition.alive(member)
    return Decision(
        transition.group,
        tuple(records),
        codes=tuple(codes),
        otherwise=lambda error: Decision(group, codes=tuple(code or error for code in codes)),
    )


def decide_commit_in_transaction(
    group: Group, committer: Committer, commits: Sequence[Commit], now: Now, max_metadata: int
) -> tuple[list[GroupRecord], list[int]]:
    """The records of a commit in a transaction, and an error code for each of ``commits``. A client
    without member, instance and generation is not checked: versions before KIP-447 have none. The
    group itself does not change."""
    refused = 0
    if committer.generation >= 0 or committer.member_id or committer.instance_id is not None:
        refused = check_member(group, committer)
    return _records(group, refused, committer, commits, now, max_metadata)


def _records(
    group: Group,
    refused: int,
    committer: Committer,
    commits: Sequence[Commit],
    now: Now,
    max_metadata: int,
) -> tuple[list[GroupRecord], list[int]]:
    expires = min(now.wall_ms + committer.retention_ms, _FOR_EVER)
    expires = expires if committer.retention_ms >= 0 else -1
    records: list[GroupRecord] = []
    codes: list[int] = []
    for commit in commits:
        code = refused or commit.error
        if not code and len(commit.metadata.encode()) > max_metadata:
            code = CODES["OFFSET_METADATA_TOO_LARGE"]
        codes.append(code)
        if not code:
            key = OffsetKey(group.group_id, commit.topic, commit.partition)
            value = CommittedOffset(
                commit.offset, commit.leader_epoch, commit.metadata, now.wall_ms, expires
            )
            records.append((encode_key(key), encode_value(value)))
    return records, codes


def check_committer(group: Group, committer: Committer) -> int:
    """0, or the error code why nothing is committed.

    A client without a generation may commit only to an empty group: while it has members the
    offsets are theirs. A member that does not have its assignment yet cannot have read anything.
    """
    if committer.generation < 0 and not committer.member_id and committer.instance_id is None:
        return 0 if group.state is State.EMPTY else CODES["UNKNOWN_MEMBER_ID"]
    code = check_member(group, committer)
    if not code and group.state is State.COMPLETING_REBALANCE:
        return CODES["REBALANCE_IN_PROGRESS"]
    return code


def check_member(group: Group, committer: Committer) -> int:
    """0 for a member of the present generation, and for one without a generation where the group is
    empty; else the error code."""
    if committer.generation < 0 and group.state is State.EMPTY:
        return 0
    return check_generation(group, committer.member_id, committer.instance_id, committer.generation)
