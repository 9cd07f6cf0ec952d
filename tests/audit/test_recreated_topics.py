"""Topics that were deleted, made again, or came back with fewer partitions, and what that says of
their windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judged_world import World, heartbeats, publisher, steady, world_in

from tallymark_audit.cells import EXPIRED, CellKey
from tallymark_audit.judge.passing import GapOf, Part, reasons_of
from tallymark_audit.judge.verdicts import State
from tallymark_audit.ranges import RangeSet
from tallymark_audit.reports.events import Gap
from tallymark_audit.sides import Observation
from tallymark_audit.store import queries
from tallymark_audit.store.tables import incidents


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def test_an_empty_gap_says_nothing() -> None:
    """A topic was deleted and made again under a mirror, which told an empty gap: 246 up to 246,
    excluded, so 246..245. A cell that lay around it was cut to a range that ends before it
    starts."""
    key = CellKey("t", 0, 0, "web", "aa" * 8)
    seen = Observation(key, 300, ranges=RangeSet.single(0, 299), first_offset=0, last_offset=299)
    parts = {key: [Part(0, seen)]}
    assert reasons_of(parts, [GapOf(0, 246, 245, EXPIRED)]) == {}
    assert reasons_of(parts, [GapOf(0, 9, 2, EXPIRED)]) == {}
    (why,) = reasons_of(parts, [GapOf(0, 246, 245, EXPIRED), GapOf(0, 299, 310, EXPIRED)])[key]
    assert str(why.ranges) == "299"


@pytest.mark.parametrize("heard", ["now", "by an older collector"])
def test_a_topic_made_again_under_a_mirror_does_not_end_the_collector(
    world: World, heard: str
) -> None:
    """The mirror of a topic that was deleted and made again told of it by an empty gap. The
    aggregate's collector wrote it into the store, died of it, and died again at every start."""
    one = publisher(world, "dc1", b"a")
    steady(world, one)
    if heard == "now":
        world.mirror_reports("dc1", [Gap("t", 0, 46, 45, "recreated", world.now)])
    else:
        reason = "mirror-dc1-to-aggregate could not copy these upstream offsets: recreated"
        place = {"cluster": "aggregate", "topic": "t", "partition": 0, "kind": "gap"}
        with world.store.write() as connection:
            row = place | {"from_offset": 46, "to_offset": 46, "reason": reason}
            connection.execute(incidents.insert().values(**row))
    heartbeats(world, one)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}
    if heard == "now":
        with world.store.read() as connection:
            assert queries.all_incidents(connection) == []
