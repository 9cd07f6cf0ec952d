"""Whatever the order of appends, commits, losses and regained leads: no client is told what a later
leader does not have. And each guard, taken out, is found by some seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest
from coordinator_world import Broken, simulate

from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.shards import Shards
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.partitions.partition import Partition

SEEDS: Final = 60
SEARCHED: Final = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_client_is_told_what_a_later_leader_does_not_have(seed: int) -> None:
    simulate(seed)


def test_a_seed_replays_equal() -> None:
    assert simulate(7).history == simulate(7).history


def reads_at_once(patch: pytest.MonkeyPatch) -> None:
    """Reads do not wait."""
    patch.setattr(GroupShard, "settled", lambda shard, answer, refuse: answer)


def heartbeats_at_once(patch: pytest.MonkeyPatch) -> None:
    """An answer whose decision has no record does not wait."""
    told = GroupShard._told

    def at_once(shard: GroupShard, decision: Any, of: Any) -> Any:
        return of(decision.codes) if not decision.records else told(shard, decision, of)

    patch.setattr(GroupShard, "_told", at_once)


def commits_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nothing waits, as with one replica."""
    patch.setattr(ReplayedState, "is_settled", True)


def any_epoch(patch: pytest.MonkeyPatch) -> None:
    """The partition counts, not its leader epoch: the coordinator goes on until it is told that the
    lead is lost, and a high watermark of any epoch is its own (KAFKA-20634)."""
    of_log: WeakKeyDictionary[Any, list[Partition]] = WeakKeyDictionary()
    begin, commit = Partition.begin_replicated, Partition.commit

    def begun(partition: Partition, known: int) -> None:
        of_log.setdefault(partition.log, []).append(partition)
        begin(partition, known)

    def committed(partition: Partition, offset: int) -> None:
        for each in of_log[partition.log]:
            commit(each, offset)

    patch.setattr(Partition, "begin_replicated", begun)
    patch.setattr(Partition, "commit", committed)
    patch.setattr(Partition, "withdraw", lambda partition: None)


def replayed_is_committed(patch: pytest.MonkeyPatch) -> None:
    """What was replayed at the election counts as committed."""
    made = ReplayedState.__init__

    def init(replayed: Any, partition: Partition, *rest: Any) -> None:
        made(replayed, partition, *rest)
        replayed.end = min(replayed.end, partition.high_watermark)

    patch.setattr(ReplayedState, "__init__", init)


def not_answered_when_lost(patch: pytest.MonkeyPatch) -> None:
    """A shard that is closed forgets what waits."""
    patch.setattr(Partition, "withdraw", lambda partition: None)
    patch.setattr(ReplayedState, "close", lambda replayed: setattr(replayed, "closed", True))


def losses_by_partition(patch: pytest.MonkeyPatch) -> None:
    """A loss that is told late ends a newer lead."""

    def give_up(shards: Any, partition: Partition) -> None:
        shards._loading.pop(partition.index, None)
        shard = shards._shards.pop(partition.index, None)
        if shard is not None:
            shard.close()

    patch.setattr(Shards, "give_up", give_up)


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (reads_at_once, "no_answer_before_commit"),
        (heartbeats_at_once, "no_answer_before_commit"),
        (commits_at_once, "no_answer_before_commit"),
        (any_epoch, "no_answer_before_commit"),
        (replayed_is_committed, "no_answer_before_commit"),
        (not_answered_when_lost, "everything_is_answered"),
        (losses_by_partition, "everything_is_answered"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_guard_that_is_taken_out_is_found_by_a_seed(
    mutation: Callable[[pytest.MonkeyPatch], None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(SEARCHED):
        try:
            simulate(seed)
        except Broken as broken:
            if expected in str(broken):
                return
    pytest.fail(f"{mutation.__name__}: {SEARCHED} seeds found nothing")
