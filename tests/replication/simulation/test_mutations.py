"""Each guard of replication is there because some run of the simulation breaks without it."""

from __future__ import annotations

import pytest
from simulated_mutations import MUTATIONS
from simulated_plan import plan_of
from simulated_world import broken_by

FOUND_FROM = {
    "maximal_isr": 90,
    "broker_epoch_at_the_fetch": 0,
    "broker_epoch_at_the_join": 0,
    "epoch_on_the_high_watermark": 205,
    "least_isr": 0,
    "reading_again": 0,
    "start_of_the_epoch": 5,
    "second_round": 525,
    "epoch_of_an_answer": 0,
    "least_isr_of_the_controller": 0,
    "reading_again_of_the_controller": 10,
    "fence": 0,
    "epoch_of_a_cancel": 0,
    "confession": 45,
    "boot_after_the_confession": 45,
    "boot_of_a_clean_stop": 0,
}
"""The first seed that is tried without the guard: just before one that found it."""
TRIED = 1_500
BROKEN = {
    "maximal_isr": "every_isr_member_has_the_committed",
    "broker_epoch_at_the_fetch": "every_isr_member_has_the_committed",
    "broker_epoch_at_the_join": "fenced_writes_nothing",
    "epoch_on_the_high_watermark": "no_answer_before_commit",
    "least_isr": "isr_within_replicas_and_not_below_min",
    "reading_again": "every_isr_member_has_the_committed",
    "start_of_the_epoch": "every_isr_member_has_the_committed",
    "least_isr_of_the_controller": "isr_within_replicas_and_not_below_min",
    "reading_again_of_the_controller": "eventually_whole",
    "fence": "fenced_writes_nothing",
    "confession": "acknowledged_is_kept",
    "boot_after_the_confession": "acknowledged_is_kept",
    "boot_of_a_clean_stop": "acknowledged_is_kept",
}
"""What the first of them breaks, where it is always the same."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_guard_that_is_taken_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    first = FOUND_FROM[name]
    runs = (broken_by(plan_of(seed)) for seed in range(first, first + TRIED))
    broken = next((one for one in runs if one is not None), None)
    assert broken is not None
    assert broken.name == BROKEN.get(name, broken.name), broken


def test_with_its_guards_no_seed_of_these_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation is found because of what it takes out."""
    for first in FOUND_FROM.values():
        for seed in range(first, first + 10):
            broken = broken_by(plan_of(seed))
            assert broken is None, f"seed {seed}: {broken}"
