"""Each guard of replication is there because some run of the simulation breaks without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from simulated_mutations import MUTATIONS
from simulated_plan import FAULTS, Plan, plan_of
from simulated_world import broken_by

TRIED: Final = 1_500


class Found(NamedTuple):
    """By which seeds a mutation is found: from ``first``, which is just before one that found it,
    among faults of the kinds ``only``. ``broken``: what they break, where it is always the same."""

    first: int
    broken: str = ""
    only: Sequence[str] = FAULTS


FOUND: Final = {
    "maximal_isr": Found(85, "every_isr_member_has_the_committed"),
    "broker_epoch_at_the_fetch": Found(
        115, "every_isr_member_has_the_committed", ("kill", "slow", "wipe")
    ),
    "broker_epoch_at_the_join": Found(80, "fenced_writes_nothing", ("kill", "slow", "power")),
    "assigned_at_the_join": Found(
        35, "isr_within_replicas_and_not_below_min", ("reassign", "cancel", "slow")
    ),
    "epoch_on_the_high_watermark": Found(205, "no_answer_before_commit"),
    "least_isr": Found(0, "isr_within_replicas_and_not_below_min"),
    "reading_again": Found(
        808, "every_isr_member_has_the_committed", ("deaf", "expire", "kill", "stop")
    ),
    "start_of_the_epoch": Found(160, "every_isr_member_has_the_committed"),
    "second_round": Found(405, "", ("power", "stop", "kill", "expire", "leave")),
    "epoch_of_an_answer": Found(922, "high_watermark_never_falls_in_an_epoch"),
    "least_isr_of_the_controller": Found(0, "isr_within_replicas_and_not_below_min"),
    "suspects_below_the_minimum": Found(
        0, "isr_within_replicas_and_not_below_min", ("suspect", "kill")
    ),
    "isr_of_a_suspects_successor": Found(7, "acknowledged_is_kept", ("suspect", "kill")),
    "fetch_after_the_isr": Found(173, "isr_members_have_fetched"),
    "reading_again_of_the_controller": Found(5, "eventually_whole"),
    "fence": Found(0, "fenced_writes_nothing"),
    "epoch_of_a_cancel": Found(0, "high_watermark_never_falls_in_an_epoch", ("reassign", "cancel")),
    "report_of_incomplete_logs": Found(40, "acknowledged_is_kept"),
    "boot_after_the_report": Found(40, "acknowledged_is_kept"),
    "boot_of_a_clean_stop": Found(0, "", ("power", "kill")),
    "look_at_the_own_disk": Found(20, "resigns_for_its_own_bytes", ("rot", "kill")),
    "corrupt_members_are_not_cut": Found(
        250, "every_isr_member_has_the_committed", ("rot", "leave")
    ),
    "corrupt_logs_are_copied_again": Found(5, "bad_logs_are_copied_again", ("rot", "kill")),
}


def plan_for(found: Found, seed: int) -> Plan:
    return plan_of(seed, found.only)


def test_each_mutation_is_tried() -> None:
    assert set(FOUND) == set(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_guard_that_is_taken_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    found = FOUND[name]
    seeds = range(found.first, found.first + TRIED)
    runs = (broken_by(plan_for(found, seed)) for seed in seeds)
    broken = next((one for one in runs if one is not None), None)
    assert broken is not None
    assert found.broken in ("", broken.name), broken


def test_with_its_guards_no_seed_of_these_breaks() -> None:
    """A mutation is found because of what it takes out."""
    for found in FOUND.values():
        for seed in range(found.first, found.first + 10):
            broken = broken_by(plan_for(found, seed))
            assert broken is None, f"seed {seed}: {broken}"
