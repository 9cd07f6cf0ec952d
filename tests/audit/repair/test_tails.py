"""Repair takes from what brokers saved before they cut their logs, and from nothing else that has
its name: exactly what is missing, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repair_world import HOME, KEY, LOST, MIRROR, World, held_in, judged

from tallymark.errors import UserError
from tallymark.log import Files, LogConfig, LogManager, OsFiles
from tallymark.log.saved_tails import save_tail, tail_of
from tallymark.protocol.records.batch import split_batches
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.apply import apply_plan
from tallymark_audit.repair.plan import RepairPlan, make_repair_plan
from tallymark_audit.repair.plan_file import read_plan, write_plan
from tallymark_audit.repair.tails import PREFIX, find_tails, open_tail
from tallymark_audit.repair.upstream import check_upstream
from tallymark_audit.store import Store, open_store
from tallymark_audit.testing import MemoryCluster

TOPIC_ID = uuid.UUID(int=77)


class WithTails(World):
    """Sources that are tails are read from their folders."""

    def reader(self, cluster: str) -> Any:
        if cluster.startswith(PREFIX):
            return open_tail(cluster, self.reader)
        return super().reader(cluster)


def saved(
    home: Path, sequences: list[int], topic_id: uuid.UUID = TOPIC_ID, at: int = 1, keep: int = 0
) -> str:
    """A log with a batch for each of these sequences, cut behind ``keep`` of them: the tail."""
    world, files = World(), OsFiles()
    for sequence in sequences:
        world.put("dc1", [sequence])
    data = home / f"scratch-{at}"
    manager = LogManager.open(files, [data], LogConfig(), broker_id=0, now_ms=0, cluster_id="c")
    log = manager.create("t", 0, topic_id, 0)
    for batch in world.clusters["dc1"].log("t", 0).batches:
        log.append_leaders(bytes(batch.data), 0, 0)
    planned = log.tail(keep)
    tail = tail_of(
        planned,
        cluster_id="c",
        broker=1,
        saved_at=at,
        topic="t",
        partition=0,
        topic_id=topic_id,
        leader_epoch=3,
        high_watermark=log.end_offset,
    )
    folder = save_tail(files, str(home), log, tail, 10**9)
    manager.close()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "broker-1"
    made.mkdir()
    return made


@pytest.fixture
def world() -> WithTails:
    made = WithTails()
    made.put("dc1", [0, 1, 2])
    made.clusters["dc1"].ids["t"] = TOPIC_ID
    return made


def plan_of(store: Store, world: World, *paths: Path) -> RepairPlan:
    found = find_tails(paths, ["dc1", "aggregate"], world.reader)
    with store.read() as connection:
        return make_repair_plan(connection, (HOME, MIRROR), 1, tails=found.held)


def test_what_was_cut_comes_back_from_the_tail_once(
    store: Store, world: WithTails, home: Path, tmp_path: Path
) -> None:
    saved(home, [0, 1, 2, 3, 4], keep=3)
    judged(store, HOME, LOST, State.LOSS)
    plan = plan_of(store, world, home)
    (one,) = plan.items
    assert (one.refused, one.missing, one.upstream[:9]) == ("", RangeSet.single(3, 4), "tail:dc1:")
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    (looked,) = check_upstream(plan, world)
    assert looked.there == RangeSet.single(3, 4)
    assert [result.outcome for result in apply_plan(plan, world)] == ["repaired"]
    assert world.found(cluster="dc1") == {0: [0, 1, 2, 3, 4]}
    (record,) = world.clusters["dc1"].log("t").batches[-1].records()
    assert (record.value, record.timestamp) == (b"value 4", 60_004)
    assert [result.outcome for result in apply_plan(plan, world)] == ["present"]
    assert world.found(cluster="dc1") == {0: [0, 1, 2, 3, 4]}


def test_what_nobody_saved_is_refused_as_before(store: Store, world: WithTails, home: Path) -> None:
    saved(home, [0, 1, 2, 3], keep=3)
    judged(store, HOME, LOST, State.LOSS)
    taken, refused = plan_of(store, world, home).items
    assert (taken.missing, taken.refused) == (RangeSet.single(3, 3), "")
    assert refused.missing == RangeSet.single(4, 4)
    assert "no log has them" in refused.refused


def test_a_topic_that_was_made_again_gets_nothing_of_the_old_one(
    store: Store, world: WithTails, home: Path
) -> None:
    """The records would come to stand in a topic that has only its name from theirs."""
    saved(home, [3, 4], topic_id=uuid.UUID(int=5))
    judged(store, HOME, LOST, State.LOSS)
    found = find_tails([home], ["dc1", "aggregate"], world.reader)
    ((_, why),) = found.others
    assert found.held == ()
    assert "was deleted" in why
    (one,) = plan_of(store, world, home).items
    assert one.refused


def test_a_plan_of_a_topic_that_was_made_again_since_copies_nothing(
    store: Store, world: WithTails, home: Path
) -> None:
    saved(home, [3, 4])
    judged(store, HOME, LOST, State.LOSS)
    plan = plan_of(store, world, home)
    world.clusters["dc1"].ids["t"] = uuid.UUID(int=6)
    (result,) = apply_plan(plan, world)
    assert result.outcome == "failed"
    assert "was deleted" in result.reason
    assert world.found(cluster="dc1") == {0: [0, 1, 2]}


def test_of_two_unclean_elections_each_record_is_taken_once(
    store: Store, world: WithTails, home: Path
) -> None:
    """A broker cut 3 and 4, another one only 4 later: both tails have it."""
    saved(home, [3, 4], at=1)
    saved(home, [4], at=2)
    judged(store, HOME, LOST, State.LOSS)
    plan = plan_of(store, world, home)
    assert plan.count == 2
    apply_plan(plan, world)
    assert world.found(cluster="dc1") == {0: [0, 1, 2, 3, 4]}


def test_what_came_during_the_repair_is_not_doubled(
    store: Store, world: WithTails, home: Path
) -> None:
    """The producer sent it again between plan and repair, while others produced on."""
    saved(home, [3, 4])
    judged(store, HOME, LOST, State.LOSS)
    plan = plan_of(store, world, home)
    world.put("dc1", [7, 4, 8])
    apply_plan(plan, world)
    assert sorted(world.found(cluster="dc1")[0]) == [0, 1, 2, 3, 4, 7, 8]


def test_what_a_mirror_has_copied_is_left_where_it_is(
    store: Store, world: WithTails, home: Path
) -> None:
    """The mirror would copy it once more, and the aggregate would have it twice."""
    saved(home, [3, 4])
    held_in(store, "aggregate", RangeSet.single(0, 3))
    judged(store, HOME, LOST, State.LOSS)
    taken, refused = plan_of(store, world, home).items
    assert taken.missing == RangeSet.single(4, 4)
    assert "aggregate holds them" in refused.refused


def test_a_batch_of_a_tail_that_is_damaged_is_gone_and_said_so(
    store: Store, world: WithTails, home: Path
) -> None:
    folder = saved(home, [3, 4])
    judged(store, HOME, LOST, State.LOSS)
    plan = plan_of(store, world, home)
    (path,) = Path(folder).glob("*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (result,) = apply_plan(plan, world)
    assert (result.outcome, result.copied) == ("partly", RangeSet.single(3, 3))
    assert len(split_batches(data)) == 2


@pytest.mark.parametrize("what", ["", "nothing.txt", "missing"])
def test_a_path_without_tails_is_refused_or_has_none(
    what: str, world: WithTails, home: Path
) -> None:
    (home / "nothing.txt").write_text("x")
    if not what:
        assert find_tails([home], ["dc1"], world.reader).held == ()
    else:
        with pytest.raises(UserError, match="cannot be read"):
            find_tails([home / what], ["dc1"], world.reader)


@settings(max_examples=25, deadline=None)
@given(cut=st.sets(st.integers(3, 30), min_size=1), lost=st.sets(st.integers(3, 30), min_size=1))
def test_exactly_what_is_missing_and_was_saved_comes_back(
    tmp_path_factory: pytest.TempPathFactory, cut: set[int], lost: set[int]
) -> None:
    home = tmp_path_factory.mktemp("tail")
    saved(home, sorted(cut))
    world = WithTails()
    world.put("dc1", [0, 1, 2])
    world.clusters["dc1"].ids["t"] = TOPIC_ID
    missing = RangeSet.of(lost)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(f"sqlite:///{home / 'audit.db'}"))
        judged(store, HOME, CellVerdict(KEY, State.LOSS, 40, 40, missing, missing.size), State.LOSS)
        plan = plan_of(store, world, home)
    for _ in range(2):
        apply_plan(plan, world)
    assert sorted(world.found(cluster="dc1")[0]) == [0, 1, 2, *sorted(cut & lost)]


def test_a_tail_is_read_like_a_cluster(home: Path) -> None:
    folder = saved(home, [3, 4, 5])
    cluster = MemoryCluster()
    cluster.log("t")
    cluster.ids["t"] = TOPIC_ID
    reader = open_tail(f"{PREFIX}dc1:{folder}", lambda _: cluster)
    at, seen = reader.get_offsets_before("t", 0, -2)[0], 0
    (end,) = reader.get_offsets_before("t", 0, -1)
    while at < end:
        (answer,) = reader.multifetch([("t", 0, at, -1)], max_bytes=1)
        seen += len(answer.batches)  # type: ignore[union-attr]
        at = answer.next_offset  # type: ignore[union-attr]
    assert seen == 3
    files: Files = OsFiles()
    assert files.is_dir(folder)
