"""What is remembered of the groups of one cluster between looks, and the states made of it. Does no
I/O; the time is an argument.

Memory is bounded: by the number of groups (:data:`MAX_GROUPS`), of their partitions
(:data:`MAX_PARTITIONS`), and of courses of logs (:data:`MAX_COURSES`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from tallymark.client.admin.groups import GroupDescription
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.course import Course, delay, follow
from tallymark_dashboards.snapshots.holder import longest, total, worst
from tallymark_dashboards.snapshots.shapes import (
    WORST_LAST,
    CoursePoint,
    Delay,
    GroupPartition,
    GroupState,
    Kept,
    Status,
)
from tallymark_dashboards.snapshots.status import Position, Window, judge, lag_of

MAX_GROUPS: Final = 10_000
MAX_PARTITIONS: Final = 50_000
"""Of all groups of a cluster together."""
MAX_COURSES: Final = 20_000
"""Logs whose ends are followed."""
END_SAMPLES: Final = 60
LAG_SAMPLES: Final = 90
AUDIT_GROUPS: Final = "tallymark-audit-"
"""What the names of the collectors' groups begin with."""
_OF_COLLECTORS: Final = (
    "collectors of the audit commit no offsets, for the audit store has them: the ages on the "
    "overview, and tallymark audit age, say how far they are"
)
Key: TypeAlias = tuple[Kept, str]


class Ends(NamedTuple):
    """Where a log began and ended (excluded) at a time (ms). ``stable``: where readers of committed
    messages end, None where that is not known."""

    start: int
    end: int
    at: int
    stable: int | None = None

    @property
    def behind_open(self) -> int:
        """Messages behind the first open transaction."""
        return 0 if self.stable is None else max(0, self.end - self.stable)


class Seen(NamedTuple):
    """A group as one look found it."""

    kept: Kept
    described: GroupDescription
    offsets: Mapping[TopicPartition, int]
    at: int
    error: str = ""


class GroupBook:
    """The groups of one cluster. One thread writes; :meth:`course_of` is for any thread."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, Course] = {}
        self._records: dict[TopicPartition, tuple[int, int]] = {}
        self._windows: dict[Key, dict[TopicPartition, Window]] = {}
        self._lags: dict[Key, Course] = {}
        self._lock = Lock()  # of _lags

    def follow(self, ends: Mapping[TopicPartition, Ends], of: Collection[TopicPartition]) -> None:
        """Note the ends of the logs that groups read (``of``); forget all other courses."""
        for at in [at for at in self._ends if at not in of]:
            del self._ends[at]
        for at in [at for at in self._records if at not in of]:
            del self._records[at]
        for at in of:
            found = ends.get(at)
            course = self._ends.get(at)
            if course is None and len(self._ends) < MAX_COURSES:
                course = self._ends[at] = Course(most=END_SAMPLES)
            if course is not None and found is not None:
                follow(course, found.at, found.end)

    def record_at(self, partition: TopicPartition, offset: int, timestamp: int) -> None:
        """Note the time (ms) of the record at ``offset``, which a group reads next."""
        self._records[partition] = (offset, timestamp)

    def wanting(self, group: GroupState) -> Iterable[tuple[TopicPartition, int]]:
        """(partition, offset) of records whose time would say what the course of the log does not:
        how old they are."""
        for one in group.partitions:
            unsure = one.delay is None or one.delay.least
            if one.lag and one.offset is not None and one.start is not None and unsure:
                yield (one.topic, one.partition), max(one.offset, one.start)

    def state(self, seen: Seen, ends: Mapping[TopicPartition, Ends], now: int) -> GroupState:
        """The group's state after a look, which becomes part of its window and course."""
        group = seen.described
        owners = {at: one.member_id for one in group.members for at in one.partitions}
        key = seen.kept, group.group
        windows = self._windows.setdefault(key, {})
        for gone in [at for at in windows if at not in seen.offsets]:
            del windows[gone]
        parts = tuple(
            self._partition(windows, at, seen, ends.get(at), owners.get(at, ""), now)
            for at in sorted({*seen.offsets, *owners})
        )
        lag, late = total(parts), longest(parts)
        if lag is not None:
            with self._lock:
                course = self._lags.setdefault(key, Course(2, LAG_SAMPLES))
                course.add(now, lag, -1 if late is None else late.ms)
        status, why = _summed_up(seen, parts)
        return GroupState(
            group.group,
            seen.kept,
            group.state,
            group.protocol,
            group.coordinator,
            group.members,
            parts,
            seen.at,
            seen.error,
            lag,
            late,
            status,
            why,
        )

    def keep_only(self, groups: Collection[Key]) -> None:
        """Forget the groups that are no more."""
        for gone in [name for name in self._windows if name not in groups]:
            del self._windows[gone]
        with self._lock:
            for gone in [name for name in self._lags if name not in groups]:
                del self._lags[gone]

    def course_of(self, group: str) -> tuple[CoursePoint, ...]:
        """The lag of a group over time, the oldest first."""
        with self._lock:
            course = self._lags.get(("brokers", group)) or self._lags.get(("zookeeper", group))
            return tuple(CoursePoint(*sample) for sample in course) if course else ()

    def _partition(
        self,
        windows: dict[TopicPartition, Window],
        at: TopicPartition,
        seen: Seen,
        ends: Ends | None,
        owner: str,
        now: int,
    ) -> GroupPartition:
        offset = seen.offsets.get(at)
        if offset is None:
            start, end = (None, None) if ends is None else (ends.start, ends.end)
            why = "no offset is committed yet"
            return GroupPartition(*at, None, start, end, None, None, owner, Status.UNKNOWN, why)
        if ends is None:
            why = "the ends of its log are not known"
            return GroupPartition(*at, offset, None, None, None, None, owner, Status.UNKNOWN, why)
        if ends.at < seen.at and offset > ends.end:
            # Of many logs the ends are read in turns: the log has grown since, at least to here.
            ends = ends._replace(end=offset)
        lag = lag_of(offset, ends.start, ends.end)
        window = windows.get(at)
        if window is None:
            window = windows[at] = Window()
        window.see(now, offset, lag)
        status, why = judge(
            window.commits,
            window.calm_at,
            Position(offset, ends.start, ends.end, bool(owner)),
            now,
        )
        late = self._delay(at, max(offset, ends.start), lag, now)
        if ends.behind_open and ends.stable is not None and offset >= ends.stable:
            why = f"it stands at an open transaction, {ends.behind_open:,} messages behind: {why}"
        return GroupPartition(
            *at, offset, ends.start, ends.end, lag, late, owner, status, why, ends.behind_open
        )

    def _delay(self, at: TopicPartition, offset: int, lag: int, now: int) -> Delay | None:
        if not lag:
            return Delay(0)
        course = self._ends.get(at)
        found = None if course is None else delay(course, offset, now)
        known, timestamp = self._records.get(at, (-1, -1))
        if known == offset and (found is None or found.least):
            return Delay(max(0, now - timestamp))
        return found


def _summed_up(seen: Seen, parts: Collection[GroupPartition]) -> tuple[Status, str]:
    """The worst partition says how the group does."""
    if seen.error:
        return Status.UNKNOWN, f"its offsets could not be read: {seen.error}"
    if not parts:
        return Status.UNKNOWN, "it has committed no offset"
    if not seen.offsets and seen.described.group.startswith(AUDIT_GROUPS):
        return Status.UNKNOWN, _OF_COLLECTORS
    status = worst(parts)
    some = [one for one in parts if one.status is status]
    first = max(some, key=lambda one: one.lag or 0)
    if status is WORST_LAST[0]:
        return status, first.why if len(parts) == 1 else "every partition is OK"
    where = f"{first.topic}-{first.partition}: {first.why}"
    return status, where if len(some) == 1 else f"{where} (and {len(some) - 1:,} more partitions)"
