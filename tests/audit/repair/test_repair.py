"""Repair copies exactly what is missing, once, to where the mirror would have put it, and says why
where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from repair_world import (
    HOME,
    KEY,
    LOST,
    MIRROR,
    World,
    held_in,
    item,
    judged,
)

from tallymark.deployment import Mirror
from tallymark.errors import ConnectError, UserError
from tallymark.protocol.murmur2 import partition_of
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.cells import EXPIRED, CellKey, Copy, Edge, Explanation
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.repair.apply import apply_plan
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.plan import RepairPlan, make_repair_plan
from tallymark_audit.repair.plan_file import read_plan, to_json, write_plan
from tallymark_audit.repair.upstream import check_upstream
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts
from tallymark_audit.store.judged.verdicts import locate_cells
from tallymark_audit.store.reading import queries
from tallymark_audit.testing import MemoryCluster


class _Counted(MemoryCluster):
    """A cluster that counts how often it is fetched from."""

    fetches = 0

    def multifetch(self, *arguments: Any, **named: Any) -> Any:
        self.fetches += 1
        return super().multifetch(*arguments, **named)


def apply(world: World, *items: RepairItem) -> list[tuple[str, str]]:
    return [(one.outcome, one.reason) for one in apply_plan(RepairPlan(0, items), world)]


@settings(max_examples=40)
@given(
    here=st.sets(st.integers(0, 40)),
    there=st.sets(st.integers(0, 40)),
    blamed=st.sets(st.integers(0, 40), min_size=1),
    patience=st.integers(0, 30),
    exact=st.booleans(),
)
def test_what_is_missing_is_copied_once_whenever_it_breaks_off(
    here: set[int], there: set[int], blamed: set[int], patience: int, exact: bool
) -> None:
    world = World(patience=patience)
    world.put("dc1", sorted(here))
    world.put("aggregate", sorted(there))
    world.clusters["aggregate"].log("t")
    world.clusters["dc1"].log("t")
    places = tuple(MissingRun(0, at, at, s, s) for at, s in enumerate(sorted(here)) if s in blamed)
    one = item(RangeSet.of(blamed), 60, places=places if exact else ())
    try:
        apply(world, one)
    except ConnectError:
        world.patience = 1 << 30
        apply(world, one)
    expected = sorted(there) + sorted(here & (blamed - there))
    assert world.found()[0] == expected
    (result,) = apply_plan(RepairPlan(0, (one,)), world)
    assert world.found()[0] == expected
    assert set(_members(result.present)) == blamed & (here | there)
    assert set(_members(result.gone)) == blamed - here - there
    assert result.copied == EMPTY


def test_places_near_each_other_are_read_together() -> None:
    """A torn tail had lost 3,500 messages of four producers, one here and one there. Each was
    fetched by itself, a megabyte for a record: the repair took five minutes."""
    world = World()
    world.clusters["dc1"] = source = _Counted()
    world.put("dc1", range(400))
    world.put("aggregate", range(0, 400, 2))
    items = [
        item(RangeSet.single(at, at), 399, places=(MissingRun(0, at, at, at, at),))
        for at in range(1, 400, 2)
    ]
    assert {outcome for outcome, _ in apply(world, *items)} == {"repaired"}
    assert sorted(world.found()[0]) == list(range(400))
    assert source.fetches < 5


def _members(ranges: RangeSet) -> Iterator[int]:
    return (number for first, last in ranges for number in range(first, last + 1))


def test_records_are_copied_as_they_are() -> None:
    world = World()
    world.put("dc1", range(4), keys="k")
    world.put("aggregate", [0, 3])
    assert apply(world, item(RangeSet.single(1, 2), 3)) == [("repaired", "")]
    original = world.clusters["dc1"].log("t").batches[0].records()[1]
    (batch,) = world.clusters["aggregate"].log("t").batches[1:2]
    (copied,) = batch.records()
    assert copied[1:] == original[1:]


def test_it_goes_to_the_topic_and_partition_the_mirror_would_choose() -> None:
    world = World()
    for partition in range(4):
        world.put("dc1", [], partition=partition)
        world.clusters["dc1"].log("t", partition)
    world.put("dc1", range(6), partition=3, keys="abc")
    for partition in range(3):
        world.clusters["aggregate"].log("dc1.t", partition)
    within = (OffsetRange(3, 0, 5),)
    one = item(RangeSet.single(0, 5), 5, topic="dc1.t", within=within)
    assert apply(world, one) == [("repaired", "")]
    expected: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for sequence in range(6):
        expected[partition_of("abc"[sequence % 3].encode(), 3)].append(sequence)
    assert world.found("dc1.t") == expected
    assert apply(world, one) == [("present", "")]
    world.clusters["aggregate"].log("dc1.t", 3)
    late = item(RangeSet.single(0, 0), 5, topic="dc1.t", within=within)
    # Where keys decide, a record may be in any partition, whatever their number was then.
    assert apply(world, replace(late, by_key=True)) == [("present", "")]


def test_what_expired_is_refused_with_the_reason() -> None:
    world = World()
    world.put("dc1", range(3))
    world.put("dc1", range(3, 6))
    world.clusters["aggregate"].log("t")
    world.clusters["dc1"].log("t").expire(1)
    ((outcome, reason),) = apply(world, item(RangeSet.single(1, 4), 5))
    assert outcome == "partly"
    assert reason == ("2 are no longer in dc1: sequences 1-2 (retention: t-0 begins at offset 3)")
    assert world.found() == {0: [3, 4]}


@pytest.mark.parametrize("where", ["dc1", "aggregate"])
def test_in_a_compacted_topic_a_later_record_of_the_key_wins(where: str) -> None:
    """Copied to the end of the log, an old value would replace the newer one."""
    world = World(compact={"t"})
    world.put("dc1", range(4), keys="abcd")
    world.put("aggregate", [0, 3], keys="ad")
    world.put(where, [20], keys="b", at=70_000)
    ((outcome, reason),) = apply(world, item(RangeSet.single(1, 2), 3))
    assert outcome == "partly"
    assert reason == "t is compacted and a later record has the key: sequences 1"
    assert 1 not in world.found()[0]
    assert 2 in world.found()[0]
    world.compact.clear()
    assert apply(world, item(RangeSet.single(1, 2), 3)) == [("repaired", "")]


def test_in_a_compacted_topic_both_of_a_key_are_copied_in_order() -> None:
    world = World(compact={"t"})
    world.put("dc1", range(4), keys="ab")
    world.clusters["aggregate"].log("t")
    assert apply(world, item(RangeSet.single(0, 3), 3)) == [("repaired", "")]
    assert world.found() == {0: [0, 1, 2, 3]}


def test_a_topic_that_is_not_downstream_is_said() -> None:
    world = World()
    world.put("dc1", range(4))
    ((outcome, reason),) = apply(world, item(RangeSet.single(0, 3), 3))
    assert outcome == "failed"
    assert "aggregate has no topic t" in reason


# --- the plan -----------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield store


def plan_of(store: Store, *edges: Edge) -> RepairPlan:
    with store.read() as connection:
        return make_repair_plan(connection, edges, 1)


def test_a_plan_says_from_where_to_where(store: Store, tmp_path: Path) -> None:
    mirror = Mirror(source="dc1", target="aggregate", rename="{source}.{topic}", topics=".*")
    edge = replace(MIRROR, mirror=mirror)
    seen = Observation(KEY, 10, 10, RangeSet.single(0, 9), first_offset=100, last_offset=120)
    with store.write() as connection:
        counts.save_observations(connection, "dc1", "t", 2, [seen], 1)
    judged(store, edge, LOST, State.LOSS)
    plan = plan_of(store, edge)
    (one,) = plan.items
    assert (one.topic, one.within, one.places, one.refused) == (
        "dc1.t",
        (OffsetRange(2, 100, 120),),
        (),
        "",
    )
    assert plan.count == 2
    place = {"cluster": "dc1", "topic": "t", **MissingRun(2, 103, 104, 3, 4)._asdict()}
    with store.write() as connection:
        (row,) = queries.windows(connection)
        locate_cells(connection, row, {0: [place]})
    plan = plan_of(store, edge)
    assert plan.items[0].places == (MissingRun(2, 103, 104, 3, 4),)
    assert plan == plan_of(store, edge)
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert to_json(plan)["items"][0]["from"]["places"] == [[2, 103, 104, 3, 4]]


@pytest.mark.parametrize(
    ("edge", "cell", "said"),
    [
        (
            Edge("producer-to-dc1", "producer", "dc1", "producer"),
            LOST,
            f"web (run {KEY.instance}) was told that sequences 3-4 of partition 0 are safe",
        ),
        (
            Edge("dc1-to-group:g", "dc1", "group:g", "consumer"),
            LOST,
            "a group is not copied to: let it read dc1 within t-2 offsets 100-120",
        ),
        (Edge("dc1-to-lake", "dc1", "lake", "lake"), LOST, "run the load job once more for dc1"),
        (MIRROR, replace(LOST, missing=EMPTY), "counted, not named"),
        (MIRROR, replace(LOST, key=CellKey("t", 0, KEY.window, "", "")), "without a stamp"),
        (
            MIRROR,
            replace(LOST, key=KEY._replace(instance="0" * 16)),
            "where they are in dc1 is not known",
        ),
    ],
)
def test_what_cannot_be_copied_is_refused_with_what_to_do(
    edge: Edge, cell: CellVerdict, said: str, store: Store
) -> None:
    seen = Observation(KEY, 10, 10, RangeSet.single(0, 9), first_offset=100, last_offset=120)
    with store.write() as connection:
        counts.save_observations(connection, "dc1", "t", 2, [seen], 1)
    judged(store, edge, cell, State.LOSS)
    plan = plan_of(store, edge)
    assert said in plan.items[0].refused
    assert plan.count == 0
    (result,) = apply_plan(plan, World())
    assert (result.outcome, result.reason) == ("refused", plan.items[0].refused)


def test_copies_and_other_contents_are_left_alone_with_the_reason(store: Store) -> None:
    copies = tuple(Copy(1, 50 + at, at) for at in range(7))
    cell = CellVerdict(KEY, State.MIXED, 10, 10, EMPTY, 0, 7, (), copies, corrupt=(4,))
    judged(store, MIRROR, cell, State.MIXED)
    plan = plan_of(store, MIRROR)
    assert plan.items == ()
    double, corrupt = plan.left
    assert (double.state, double.count) == ("DUPLICATION", 7)
    assert "1:50, 1:51, 1:52, 1:53, 1:54, ..." in double.reason
    assert (corrupt.state, corrupt.count) == ("CORRUPT", 1)
    assert "blocks 4" in corrupt.reason


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        '{"version": 1, "items": []}',
        '{"version": 2, "made_at": 1, "items": [{}], "left": []}',
        '{"version": 2, "made_at": 1, "items": [], "left": [{"edge": 1}]}',
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UserError):
        read_plan(path)


def test_what_a_cluster_lost_and_its_mirror_holds_is_not_sent_again(store: Store) -> None:
    """A disk of dc1 lost a segment that the mirror had copied. "No log has them; send them again",
    said repair, while Spark named the offsets in the aggregate; who obeyed made duplicates
    there."""
    mirror = Mirror(source="dc1", target="aggregate", rename="{source}.{topic}", topics=".*")
    held_in(store, "aggregate", RangeSet.single(0, 3), "dc1.t")
    judged(store, HOME, LOST, State.LOSS)
    (one,) = plan_of(store, HOME, replace(MIRROR, mirror=mirror)).items
    assert (
        "dc1 has lost sequences 3, aggregate holds them: within dc1.t-1 offsets 200-220"
        in one.refused
    )
    assert "do not send those again" in one.refused
    assert "told that sequences 4 of partition 0 are safe, and no log has them" in one.refused


def test_what_spark_found_elsewhere_is_named_exactly(store: Store) -> None:
    held_in(store, "aggregate", RangeSet.single(0, 9))
    judged(store, HOME, LOST, State.LOSS)
    place = {"cluster": "aggregate", "topic": "t", **MissingRun(1, 203, 204, 3, 4)._asdict()}
    with store.write() as connection:
        (row,) = queries.windows(connection)
        locate_cells(connection, row, {0: [place]})
    (one,) = plan_of(store, HOME, MIRROR).items
    assert "dc1 has lost sequences 3-4, aggregate holds them: t-1 offsets 203-204" in one.refused
    assert "send them again" not in one.refused


def test_what_expired_before_it_was_copied_is_no_promise(store: Store) -> None:
    """Retention took records before the mirror had them: repair said that they can be copied. The
    rest of the cell can be."""
    seen = Observation(KEY, 10, 10, RangeSet.single(0, 9), first_offset=100, last_offset=120)
    with store.write() as connection:
        counts.save_observations(connection, "dc1", "t", 2, [seen], 1)
    expired = (Explanation(EXPIRED, RangeSet.single(3, 3)),)
    judged(store, MIRROR, replace(LOST, explanations=expired), State.LOSS)
    plan = plan_of(store, MIRROR)
    copy, gone = plan.items
    assert (copy.missing, copy.count, copy.refused) == (RangeSet.single(4, 4), 1, "")
    assert (gone.missing, gone.count) == (RangeSet.single(3, 3), 1)
    assert "dc1 had deleted sequences 3 before they were copied (expired)" in gone.refused
    assert plan.count == 1


def test_a_plan_of_one_topic_has_no_other(store: Store) -> None:
    judged(store, MIRROR, LOST, State.LOSS)
    with store.read() as connection:
        assert len(make_repair_plan(connection, [MIRROR], 1, topic="t").items) == 1
        assert make_repair_plan(connection, [MIRROR], 1, topic="other").items == ()


def test_a_look_promises_only_what_upstream_still_has() -> None:
    """898 messages can be copied, said the dry run, of which retention had left none."""
    world = World()
    world.put("dc1", range(3))
    world.put("dc1", range(3, 6))
    world.clusters["dc1"].log("t").expire(1)
    (one,) = check_upstream(
        RepairPlan(0, (item(RangeSet.single(1, 4), 5), item(EMPTY, 5, refused="no"))), world
    )
    assert (one.there, one.gone) == (RangeSet.single(3, 4), RangeSet.single(1, 2))
    assert "retention: t-0 begins at offset 3" in one.reason
    world.clusters["dc1"].away = True
    (one,) = check_upstream(RepairPlan(0, (item(RangeSet.single(1, 4), 5),)), world)
    assert (one.there, one.gone) == (EMPTY, EMPTY)
    assert one.reason.startswith("dc1 could not be looked at: ")
