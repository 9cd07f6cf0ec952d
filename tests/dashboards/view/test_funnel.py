"""The way of a topic, hop by hop."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.deployment import Mirror
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import family
from tallymark_dashboards.view.funnel import FULL, boxes, depths_of, digest_of, funnel


@dataclass
class Sums:
    claimed: int = 0
    observed: int = 0
    pending: int = 0
    missing: int = 0
    explained: int = 0
    duplicates: int = 0
    unclaimed: int = 0
    states: dict[str, int] = field(default_factory=dict[str, int])


def mirror(source: str, target: str, rename: str = "{topic}") -> Edge:
    rules = Mirror(source=source, target=target, rename=rename)
    return Edge(f"{source}-to-{target}", source, target, "mirror", mirror=rules)


EDGES = (
    Edge("aggregate-to-lake", "aggregate", "lake", "lake"),
    Edge("aggregate-to-group:billing", "aggregate", "group:billing", "consumer"),
    mirror("dc1", "aggregate", "dc1.{topic}"),
    Edge("producer-to-aggregate", "producer", "aggregate", "producer", implied=True),
    Edge("producer-to-dc1", "producer", "dc1", "producer"),
)


def test_hops_stand_in_the_order_in_which_messages_take_them() -> None:
    sums = {
        ("aggregate-to-lake", "dc1.clicks"): Sums(90, 90),
        ("producer-to-dc1", "clicks"): Sums(100, 97, missing=3, states={"LOSS": 1}),
        ("gone-to-lake", "clicks"): Sums(1, 1),
        ("dc1-to-aggregate", "clicks"): Sums(97, 90, 7, states={"SETTLING": 2}),
    }
    rows = funnel(EDGES, sums)
    assert [(row.edge, row.depth) for row in rows[:3]] == [
        ("producer-to-dc1", 0),
        ("dc1-to-aggregate", 1),
        ("aggregate-to-lake", 2),
    ]
    assert (rows[3].kind, rows[3].downstream) == ("former hop", "lake")
    assert (rows[0].state, rows[0].tone, rows[0].digest.symbol) == ("LOSS", "bad", "✗")
    assert (rows[1].tone, rows[1].digest.symbol) == ("wait", "…")


def test_mirrors_in_a_ring_end() -> None:
    ring = (mirror("a", "b"), mirror("b", "c"), mirror("c", "a"))
    assert all(depth <= len(ring) for depth in depths_of(ring).values())


def test_the_copies_of_a_topic_belong_to_it() -> None:
    """The page of clicks ended at the aggregate, where it is called dc1.clicks: the load into the
    lake was on another page."""
    assert family(EDGES, "clicks")[:2] == ["clicks", "dc1.clicks"]
    assert len(family(EDGES, "clicks", most=5)) <= 5


@pytest.mark.parametrize(
    ("states", "symbol", "text"),
    [
        ({"COMPLETE": 9, "EXPLAINED": 1}, "✓", "identities alike"),
        ({"COMPLETE": 9, "LOSS": 1}, "✗", "1 window differs"),
        ({"MIXED": 2, "CORRUPT": 1}, "✗", "3 windows differ, 1 in contents"),
        ({"COMPLETE": 9, "UNKNOWN": 4}, "?", "4 windows are unknown"),
        ({"OPEN": 1, "SETTLING": 1}, "…", "not decided yet"),
        ({}, "…", "not decided yet"),
    ],
)
def test_a_digest_is_never_good_without_a_decided_window(
    states: dict[str, int], symbol: str, text: str
) -> None:
    found = digest_of(states)
    assert (found.symbol, found.text) == (symbol, text)


def test_one_message_of_a_billion_is_seen() -> None:
    (arrived, lost) = boxes(Sums(10**9, 10**9 - 1, missing=1), 10**9)
    assert (arrived.kind, lost.kind) == ("actual", "short")
    assert lost.width >= 6
    assert arrived.width + lost.width <= FULL


COUNT = st.integers(0, 10**9)


@given(observed=COUNT, pending=COUNT, missing=COUNT, explained=COUNT, more=st.integers(0, 10**9))
def test_a_bar_has_every_part_and_no_more_than_its_room(
    observed: int, pending: int, missing: int, explained: int, more: int
) -> None:
    claimed = observed + pending + missing + explained
    one = Sums(claimed, observed, pending, missing, explained)
    bar = boxes(one, claimed + more)
    there = [count for count in (observed, explained, pending, missing) if count]
    assert len(bar) == (len(there) if claimed else 0)
    assert sum(box.width for box in bar) <= FULL
    assert all(box.width > 0 for box in bar)
    for box, following in pairwise(bar):
        assert box.x + box.width == following.x
