"""Each guard of transactions is there because some run of the simulation breaks without it."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from txn_mutations import MUTATIONS
from txn_plan import plan_of
from txn_world import broken_by

TRIED: Final = 400


class Found(NamedTuple):
    """By which seeds a mutation is found: from ``first``, which is one that finds it. ``broken``:
    what that breaks."""

    first: int
    broken: str


FOUND: Final = {
    "epoch_raise_at_abort": Found(0, "all_or_nothing"),
    "pending_before_ids": Found(114, "fenced_by_others_only"),
    "rotation": Found(0, "ids_rotate_in_time"),
    "decision_is_committed_first": Found(0, "decision_is_final"),
    "decision_is_final": Found(0, "decision_is_final"),
    "verification": Found(0, "fenced_by_others_only"),
    "marker_takes_the_guard": Found(80, "nothing_hangs"),
    "epoch_of_a_marker": Found(94, "all_or_nothing"),
    "coordinator_epoch_of_a_marker": Found(6, "no_aborted_record_is_visible"),
    "marker_of_a_newer_epoch_only": Found(1, "nothing_hangs"),
    "committed_marker_for_the_lso": Found(66, "lso_never_falls_in_an_epoch"),
    "order_of_pending_offsets": Found(4, "live_equals_replayed"),
    "pending_until_the_marker": Found(0, "offsets_move_iff_committed"),
    "new_epoch_after_an_unclear_answer": Found(29, "all_or_nothing"),
    "doubt_of_a_commit": Found(0, "all_or_nothing"),
}


def test_each_mutation_is_tried() -> None:
    assert set(FOUND) == set(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_guard_that_is_taken_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    found = FOUND[name]
    runs = (broken_by(plan_of(seed)) for seed in range(found.first, found.first + TRIED))
    broken = next((one for one in runs if one is not None), None)
    assert broken is not None
    assert broken.name == found.broken, broken


def test_with_its_guards_no_seed_of_these_breaks() -> None:
    """A mutation is found because of what it takes out."""
    for seed in sorted({found.first for found in FOUND.values()}):
        broken = broken_by(plan_of(seed))
        assert broken is None, f"seed {seed}: {broken}"
