"""What a broker gives up before it counts again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import HERE, cluster, view_of

from tallymark.replication import changes
from tallymark.replication.model import NO_LEADER, ChangeState, PartitionView, Tail
from tallymark.replication.planner import plan
from tallymark.replication.registration import (
    NOT_INTACT,
    GiveUp,
    LocalLog,
    RaiseEpoch,
    Register,
    RememberBoot,
    Start,
    decode_boot,
    encode_boot,
    given_up,
    is_intact,
    next_step,
)

BOOT = "6f1c1b5e-4d0a-4c8e-9b39-1f2d3c4b5a69"
END = Tail(7, 50)


def one(view: PartitionView, *, intact: bool, broker: int = 1) -> ChangeState | None:
    found = given_up(broker, {HERE: view}, {HERE: LocalLog(END, intact)})
    assert len(found) <= 1
    for change in found:
        again = changes.after(change, view)
        assert not given_up(broker, {HERE: again}, {HERE: LocalLog(END, intact)})
    return found[0] if found else None


def test_the_steps_are_in_the_order_that_is_safe() -> None:
    """The boot is remembered after the state nodes show every incomplete log: a start that was
    killed in between would else find the same boot, and vote with a log that lacks a tail."""
    view = view_of(1, (1, 2, 3))
    logs = {HERE: LocalLog(END, intact=False)}
    start = Start(1)
    assert next_step(start, {HERE: view}, logs) == RaiseEpoch()
    start = replace(start, epoch=6)
    step = next_step(start, {HERE: view}, logs)
    assert isinstance(step, GiveUp)
    view = changes.after(step.changes[0], view)
    assert next_step(start, {HERE: view}, logs) == RememberBoot()
    assert next_step(replace(start, boot_remembered=True), {HERE: view}, logs) == Register(6)


def test_a_leader_with_an_intact_log_resigns_and_keeps_its_vote() -> None:
    change = one(view_of(1, (1, 2, 3)), intact=True)
    assert change is not None
    state = change.state
    assert (state.leader, state.leader_epoch, state.isr) == (NO_LEADER, 8, (1, 2, 3))
    assert change.why == "broker 1 starts again"


def test_a_follower_with_an_intact_log_has_nothing_to_give_up() -> None:
    assert one(view_of(2, (1, 2, 3)), intact=True) is None
    assert one(view_of(2, (2, 3)), intact=False) is None


def test_a_log_that_may_lack_a_tail_leaves_the_isr_and_tells_what_it_has() -> None:
    change = one(view_of(2, (1, 2, 3)), intact=False)
    assert change is not None
    assert (change.state.leader_epoch, change.state.isr) == (7, (2, 3))
    assert dict(change.state.incomplete) == {1: END}
    assert change.why == "broker 1 starts again, its log ends at 50 and may lack a tail"


def test_a_broker_leaves_below_the_minimum_too_because_it_does_not_have_the_records() -> None:
    """KIP-966: the ISR {1} after a power failure of 1 is a lie."""
    change = one(view_of(1, (1,)), intact=False)
    assert change is not None
    assert (change.state.leader, change.state.isr) == (NO_LEADER, ())


def test_a_disk_that_was_lost_is_an_empty_log() -> None:
    (change,) = given_up(1, {HERE: view_of(2, (1, 2))}, {})
    assert dict(change.state.incomplete) == {1: Tail(-1, 0)}


def test_a_broker_with_an_incomplete_log_reports_its_present_tail() -> None:
    """It may have followed a leader since then, and be the longest now."""
    change = one(view_of(2, (2,), incomplete={1: Tail(7, 10)}), intact=True)
    assert change is not None
    assert dict(change.state.incomplete) == {1: END}


def test_one_replica_has_nobody_to_give_way_to() -> None:
    assert one(view_of(1, (1,), replicas=(1,)), intact=False) is None
    assert one(view_of(9, (9,), replicas=(9,)), intact=False) is None


def test_after_a_power_failure_of_all_the_longest_log_leads_when_the_last_is_back() -> None:
    view = view_of(2, (1, 2, 3))
    ends = {1: Tail(7, 30), 3: Tail(7, 44), 2: Tail(7, 40)}
    up: list[int] = []
    for broker, tail in ends.items():
        (change,) = given_up(broker, {HERE: view}, {HERE: LocalLog(tail, intact=False)})
        view = changes.after(change, view)
        up.append(broker)
        picture = cluster(view, up)
        while todo := plan(picture, tails={HERE: ends}).changes:
            picture = changes.settled(todo, picture)
        view = picture.partitions[HERE]
        assert (view.state.leader != NO_LEADER) == (len(up) == 3)
    assert (view.state.leader, view.state.isr, view.state.unclean) == (3, (3,), True)


@pytest.mark.parametrize(
    ("clean", "then", "now", "flushed", "intact"),
    [
        (True, "", BOOT, False, True),
        (True, BOOT, BOOT.replace("6", "7"), False, True),
        (True, NOT_INTACT, BOOT, False, False),
        (False, BOOT, BOOT, False, True),
        (False, BOOT, BOOT.replace("6", "7"), False, False),
        (False, BOOT, BOOT.replace("6", "7"), True, True),
        (False, "", "", False, False),
    ],
)
def test_kill_9_loses_nothing_a_power_failure_does(
    clean: bool, then: str, now: str, flushed: bool, intact: bool
) -> None:
    assert is_intact(clean=clean, boot_then=then, boot_now=now, flushed_first=flushed) is intact


def test_a_start_that_is_stopped_in_order_before_its_report_makes_no_log_intact() -> None:
    """A machine lost power. The broker started, found that its logs may lack a tail, and was
    stopped in order before it was registered. It left the marker of a clean stop, the next start
    took the logs for intact, and the broker voted, led, and cut what was committed."""
    now = BOOT.replace("6", "7")
    assert not is_intact(clean=False, boot_then=BOOT, boot_now=now, flushed_first=False)
    assert not is_intact(clean=True, boot_then=NOT_INTACT, boot_now=now, flushed_first=False)
    assert is_intact(clean=True, boot_then=now, boot_now=now, flushed_first=False)
    assert decode_boot(encode_boot(NOT_INTACT)) == NOT_INTACT


@given(st.uuids())
def test_a_boot_is_read_as_it_was_written(boot: object) -> None:
    assert decode_boot(encode_boot(str(boot))) == str(boot)


@given(st.binary(max_size=60))
def test_anything_else_is_no_boot(content: bytes) -> None:
    assert decode_boot(content) == "" or encode_boot(decode_boot(content)) == content


def test_an_empty_file_is_no_boot() -> None:
    """A power failure may leave the file with no bytes."""
    assert decode_boot(b"") == decode_boot(bytes(39)) == ""
