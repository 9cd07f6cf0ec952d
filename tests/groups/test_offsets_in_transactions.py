"""Offsets that are committed in transactions: when they are in force, and that a reload sees the
same."""

from __future__ import annotations

import uuid
from typing import Final

from compacting import CONFIG, closed, compact, open_log
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.broker.coordinators.state_log import TransactionOf, append_batch, replay_log
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES
from tallymark.groups.deletion import (
    decide_delete_group,
    decide_delete_offsets,
    decide_expire,
    decide_forget_topic,
)
from tallymark.groups.group import Group, Now, State
from tallymark.groups.offsets import Commit, Committer, decide_commit_in_transaction
from tallymark.groups.records import CommittedOffset, OffsetKey, encode_key, encode_value
from tallymark.groups.state import GroupsState
from tallymark.protocol.records.markers import Marker
from tallymark.testing.memory_files import MemoryFiles

NOW: Final = Now(0, 5)


class Offsets:
    """One partition of ``__consumer_offsets``, with the state that its coordinator has."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.partition = Partition("t", 0, uuid.UUID(int=1), open_log(self.files, CONFIG), 1)
        self.state = GroupsState()

    def write(self, partition: int, value: int | None, producer: int = -1) -> None:
        key = encode_key(OffsetKey("g", "t", partition))
        record = (key, None if value is None else encode_value(CommittedOffset(value)))
        transaction = TransactionOf(producer, 0, lambda _: None) if producer >= 0 else None
        append_batch(self.partition, self.state, [record], 5, 1, transaction)

    def end(self, producer: int, *, commit: bool) -> None:
        self.partition.append_marker(producer, 0, Marker(commit, 1), 5, 0)
        self.state.end_transaction(producer, commit=commit)

    def offset(self, partition: int = 0) -> int | None:
        found = self.state.offsets.get("g", "t", partition)
        return None if found is None else found.offset

    def is_pending(self, partition: int = 0) -> bool:
        return self.state.offsets.pending.is_pending("g", "t", partition)

    def replayed(self) -> GroupsState:
        return replay_log(self.partition.log, GroupsState())


def test_an_offset_is_in_force_at_the_commit_and_dropped_at_the_abort() -> None:
    at = Offsets()
    at.write(0, 10)
    at.write(0, 20, producer=7)
    assert (at.offset(), at.is_pending()) == (10, True)
    at.end(7, commit=False)
    assert (at.offset(), at.is_pending()) == (10, False)
    at.write(0, 30, producer=7)
    at.write(0, 31, producer=7)
    at.end(7, commit=True)
    assert (at.offset(), at.is_pending()) == (31, False)
    assert at.replayed() == at.state


def test_the_place_of_the_record_decides_and_not_that_of_the_marker() -> None:
    """KAFKA-14505: live the marker decided, after a reload of the compacted log the record."""
    at = Offsets()
    at.write(0, 10, producer=7)
    at.write(0, 20)
    at.end(7, commit=True)
    assert at.offset() == 20
    at.write(0, 30, producer=7)
    at.write(0, 40, producer=9)
    at.end(9, commit=True)
    at.end(7, commit=True)
    assert at.offset() == 40
    assert at.replayed() == at.state


def test_a_deletion_takes_what_was_pending_before_it() -> None:
    at = Offsets()
    at.write(0, 10, producer=7)
    at.write(0, None)
    at.end(7, commit=True)
    assert at.offset() is None
    assert at.replayed() == at.state == GroupsState()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("plain"), st.integers(0, 2), st.none() | st.integers(0, 99)),
            st.tuples(st.sampled_from([7, 9]), st.integers(0, 2), st.integers(0, 99)),
            st.tuples(st.just("end"), st.sampled_from([7, 9]), st.booleans()),
        ),
        max_size=25,
    )
)
def test_memory_is_what_a_reload_gives_before_and_after_compaction(ops: list[tuple]) -> None:  # type: ignore[type-arg]
    at = Offsets()
    for what, number, value in ops:
        if what == "end":
            at.end(number, commit=value)
        else:
            at.write(number, value, -1 if what == "plain" else what)
    assert at.replayed() == at.state
    closed(at.partition.log)
    compact(at.files, at.partition.log, until=at.partition.last_stable_offset)
    assert at.replayed() == at.state
    for producer in (7, 9):
        at.end(producer, commit=True)
    assert at.replayed() == at.state


# --- deletion


def pending_at_3() -> Offsets:
    at = Offsets()
    at.write(0, 1)
    at.write(3, 10, producer=7)
    at.write(0, 2, producer=7)
    return at


def keys(records: list[tuple[bytes, bytes | None]]) -> list[int]:
    return sorted(int.from_bytes(key[-4:]) for key, value in records if value is None)


def test_age_does_not_delete_what_a_transaction_will_replace() -> None:
    """Redpanda #31483: a tombstone was written over the staged offset, and so undid the commit."""
    at = pending_at_3()
    group = Group("g")
    assert decide_expire(at.state, group, retention_ms=0, wall_ms=10**9) == []
    at.end(7, commit=True)
    assert keys(decide_expire(at.state, group, retention_ms=0, wall_ms=10**9)) == [0, 3]


def test_requests_and_topic_deletion_delete_what_is_pending_too() -> None:
    at = pending_at_3()
    group = Group("g")
    assert keys(decide_forget_topic(at.state.offsets, "t")) == [0, 3]
    records, code = decide_delete_group(at.state, group)
    assert (keys(records), code) == ([0, 3], 0)
    records, code, codes = decide_delete_offsets(at.state, group, [("t", 3), ("t", 9)])
    assert (keys(records), code, codes) == ([3], 0, [0, 0])


def test_a_group_with_nothing_but_pending_offsets_exists() -> None:
    at = Offsets()
    at.write(0, 1, producer=7)
    assert at.state.knows("g")
    at.end(7, commit=False)
    assert not at.state.knows("g")


# --- who may commit


def tried(group: Group, committer: Committer) -> int:
    commits = [Commit("t", 0, 1)]
    return decide_commit_in_transaction(group, committer, commits, NOW, 100)[1][0]


def test_a_client_without_group_metadata_is_not_checked() -> None:
    """Before KIP-447 requests had none."""
    assert tried(Group("g", state=State.STABLE, generation=4), Committer()) == 0


def test_a_member_of_another_generation_is_refused() -> None:
    group = Group("g", state=State.STABLE, generation=4)
    assert tried(group, Committer("m", None, 4)) == CODES["UNKNOWN_MEMBER_ID"]
    assert tried(Group("g"), Committer("m", None, 4)) == CODES["UNKNOWN_MEMBER_ID"]


def test_a_text_that_is_too_long_is_refused_alone() -> None:
    commits = [Commit("t", 0, 1, metadata="x" * 11), Commit("t", 1, 1)]
    records, codes = decide_commit_in_transaction(Group("g"), Committer(), commits, NOW, 10)
    assert (len(records), codes) == (1, [CODES["OFFSET_METADATA_TOO_LARGE"], 0])
