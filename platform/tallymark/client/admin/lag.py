"""How far groups are behind: offsets, ends of logs and owners side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallymark.client.admin.groups import GroupAdmin, GroupDescription, MemberDescription
from tallymark.client.admin.records import RecordAdmin
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group and one partition. ``offset`` is the next one it reads (None: it has none);
    ``log_start`` and ``log_end`` are None, and ``error`` says why, where the leader did not return
    them. ``stable_end`` is where readers of committed records end: at the first open transaction,
    else at ``log_end``."""

    topic: str
    partition: int
    offset: int | None
    log_start: int | None = None
    log_end: int | None = None
    owner: MemberDescription | None = None
    error: TallymarkError | None = None
    stable_end: int | None = None

    @property
    def committed_lag(self) -> int | None:
        """:attr:`lag` of a reader of committed records: to where it can get now. It falls to 0 also
        below an open transaction, where :attr:`lag` never does."""
        if self.offset is None or self.stable_end is None:
            return None
        return max(0, self.stable_end - max(self.offset, self.log_start or 0))

    @property
    def behind_open(self) -> int | None:
        """How many records of the log are behind an open transaction: the difference of the two."""
        if self.log_end is None or self.stable_end is None:
            return None
        return max(0, self.log_end - self.stable_end)

    @property
    def lag(self) -> int | None:
        """How many records the group has not read, without those deleted already; None when not
        known."""
        if self.offset is None or self.log_end is None:
            return None
        return max(0, self.log_end - max(self.offset, self.log_start or 0))


class LagAdmin(GroupAdmin, RecordAdmin):
    """The methods of Admin that compare groups with logs."""

    def group_lag(self, group: str) -> tuple[PartitionLag, ...]:
        """Every partition that the group has an offset for or consumes now. KafkaError for the
        group as a whole; GROUP_ID_NOT_FOUND when it does not exist."""
        description = self.describe_groups([group])[group]
        offsets = {at: one.offset for at, one in self.group_offsets(group).done.items()}
        return self.lag_of(description, offsets)

    def lag_of(
        self, group: GroupDescription, offsets: Mapping[TopicPartition, int]
    ) -> tuple[PartitionLag, ...]:
        """The same for a group that is described already, by brokers or from ZooKeeper."""
        owned = (at for member in group.members for at in member.partitions)
        partitions = sorted({*offsets, *owned})
        starts = self.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = self.list_offsets(dict.fromkeys(starts.done, LATEST))
        stable = self.list_offsets(dict.fromkeys(ends.done, LATEST), isolation="read_committed")
        errors = {**starts.errors, **ends.errors}
        return tuple(
            PartitionLag(
                *at,
                offsets.get(at),
                starts[at].offset if at not in errors else None,
                ends[at].offset if at not in errors else None,
                group.owner(at),
                errors.get(at),
                stable[at].offset if at in stable.done else None,
            )
            for at in partitions
        )
