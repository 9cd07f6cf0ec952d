"""What the lake lacks is loaded again: exactly those offsets, and no row twice."""

from __future__ import annotations

from dataclasses import replace

from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.reloads import reloads_of

KEY = CellKey("t", 0, 60_000, "web", "ab" * 8)
ITEM = RepairItem(
    edge="aggregate-to-lake",
    upstream="aggregate",
    downstream="lake",
    key=KEY,
    topic="t",
    missing=RangeSet([(4, 6), (9, 9)]),
    count=4,
    within=(OffsetRange(2, 100, 200),),
    places=(MissingRun(2, 110, 112, 4, 6), MissingRun(1, 7, 7, 9, 9)),
)


def test_the_offsets_of_all_items_of_a_topic() -> None:
    other = replace(
        ITEM,
        key=KEY._replace(instance="cd" * 8),
        missing=RangeSet([(0, 1)]),
        places=(MissingRun(2, 113, 114, 0, 1),),
    )
    elsewhere = replace(ITEM, key=KEY._replace(topic="a"))
    a, t = reloads_of([ITEM, other, elsewhere])
    assert (a.cluster, a.topic, t.topic) == ("aggregate", "a", "t")
    assert t.offsets == {1: RangeSet([(7, 7)]), 2: RangeSet([(110, 114)])}
    assert t.count == 6


def test_what_is_not_known_exactly_is_not_loaded() -> None:
    """Within these offsets are messages that the lake has: it would have them twice."""
    assert not reloads_of([replace(ITEM, places=())])
    assert not reloads_of([replace(ITEM, missing=RangeSet())])
    longer = MissingRun(2, 110, 114, 4, 6)
    assert not reloads_of([replace(ITEM, places=(longer,))])
    assert not reloads_of([replace(ITEM, places=(MissingRun(2, 110, 113, 4, 7),))])


def test_what_is_upstream_no_more_is_left_out() -> None:
    (one,) = reloads_of([replace(ITEM, places=ITEM.places[1:])])
    assert one.offsets == {1: RangeSet([(7, 7)])}


def test_other_hops_are_copied() -> None:
    assert not reloads_of([replace(ITEM, downstream="dc2")])
