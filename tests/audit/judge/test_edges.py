"""Edges from settings, cells onto edges, watermarks over verdicts: the small pure parts."""

from __future__ import annotations

import pytest

from tallymark.deployment import BrokerAddress, Cluster, Deployment, Mirror
from tallymark.errors import UserError
from tallymark_audit.judge.assemble import mirror_facts, producer_facts
from tallymark_audit.judge.verdicts import State
from tallymark_audit.judge.watermarks import Hole, JudgedWindow, watermark
from tallymark_audit.model.cells import CellKey, Edge, window_of
from tallymark_audit.model.edges import derive_edges, edges_into, is_audited, passes
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation
from tallymark_audit.model.time_format import parse_time, percent, utc

X, Y, Z = (CellKey("t", 0, 0, "web", letter * 16) for letter in "abc")
BARE = CellKey("t", 0, 0, "", "")


def seen(key: CellKey, count: int = 5) -> Observation:
    ranges = RangeSet.single(0, count - 1) if key.stamped else RangeSet()
    return Observation(key, count, 0, ranges)


def by_key(facts: list[CellFacts]) -> dict[CellKey, CellFacts]:
    return {one.key: one for one in facts}


def test_edges_of_the_default_deployment() -> None:
    edges = derive_edges(Deployment())
    assert [edge.name for edge in edges] == [
        "producer-to-dc1",
        "producer-to-dc2",
        "producer-to-aggregate",
        "dc1-to-aggregate",
        "dc2-to-aggregate",
    ]
    assert [edge.name for edge in edges if edge.implied] == ["producer-to-aggregate"]
    assert [edge.name for edge in edges_into(edges, "aggregate")] == [
        "producer-to-aggregate",
        "dc1-to-aggregate",
        "dc2-to-aggregate",
    ]


def test_what_passes_an_edge() -> None:
    clusters = tuple(Cluster(name=n, brokers=(BrokerAddress(port=1),)) for n in ("a", "b"))
    mirror = Mirror(source="a", target="b", topics="view.*")
    edge = derive_edges(Deployment(clusters=clusters, mirrors=(mirror,)))[-1]
    assert passes(edge, "views")
    assert not passes(edge, "reviews")
    assert not is_audited("_tallymark_audit", ".*")


def test_each_upstream_gets_its_own_back() -> None:
    dc1, dc2 = {X: seen(X)}, {Y: seen(Y)}
    ups = {"dc1": dc1, "dc2": dc2}
    down = {X: seen(X, 4), Y: seen(Y), Z: seen(Z)}
    edges = [Edge(f"{u}-to-agg", u, "agg", "mirror") for u in ups]
    first, second = (by_key(mirror_facts(edge, ups, down)) for edge in edges)
    assert set(first) == {X}
    assert set(second) == {Y}
    claim = first[X].claim
    assert claim is not None
    assert claim.claimed.size == 5
    own = by_key(producer_facts({}, down, ups))
    assert set(own) == {Z}
    assert own[Z].claim is None


def test_what_upstream_has_lost_meanwhile_still_belongs_to_it() -> None:
    """dc1's log was cut after the mirror had copied: the aggregate's cell is not a stranger's."""
    ups: dict[str, dict[CellKey, Observation]] = {"dc1": {}, "dc2": {}}
    homes = {X.instance: "dc1"}
    edges = [Edge(f"{u}-to-agg", u, "agg", "mirror") for u in ups]
    first, second = (by_key(mirror_facts(edge, ups, {X: seen(X)}, homes)) for edge in edges)
    assert set(first) == {X}
    assert second == {}
    assert producer_facts({}, {X: seen(X)}, ups, homes) == []


def test_the_targets_own_producers_are_judged_by_their_claims() -> None:
    ups: dict[str, dict[CellKey, Observation]] = {"dc1": {}}
    claim = Claim(Z, accepted=RangeSet.single(0, 4), acknowledged=RangeSet.single(0, 4))
    edge = Edge("dc1-to-agg", "dc1", "agg", "mirror")
    assert mirror_facts(edge, ups, {Z: seen(Z)}, {Z.instance: "dc1"}, [Z]) == []
    (cell,) = producer_facts({Z: claim}, {Z: seen(Z)}, ups, {Z.instance: "dc1"})
    assert cell.claim == claim
    assert cell.observation is not None


def test_unstamped_records_are_shared_out_by_number() -> None:
    ups = {"dc1": {BARE: seen(BARE, 10)}, "dc2": {BARE: seen(BARE, 5)}}
    edges = [Edge(f"{u}-to-agg", u, "agg", "mirror") for u in ups]

    def shares(down: int) -> list[int | None]:
        cells = {BARE: seen(BARE, down)} if down else {}
        return [mirror_facts(edge, ups, cells)[0].observed_count for edge in edges]

    assert shares(15) == [10, 5]
    assert shares(13) == [8, 3]  # two are missing, and nobody can tell on which edge
    assert shares(0) == [0, 0]
    assert shares(20) == [10, 5]
    (stranger,) = producer_facts({}, {BARE: seen(BARE, 20)}, ups)
    assert stranger.observed_count == 5


def test_a_watermark_stops_at_the_first_hole_and_names_all() -> None:
    good, loss, settling = State.COMPLETE, State.LOSS, State.SETTLING
    mark = watermark(
        [
            JudgedWindow(0, good),
            JudgedWindow(1000, loss, accepted=True),
            JudgedWindow(2000, State.EXPLAINED),
            JudgedWindow(4000, loss),
            JudgedWindow(5000, good),
            JudgedWindow(6000, State.UNKNOWN),
            JudgedWindow(7000, settling),
        ],
        7500,
        1000,
    )
    assert mark.through == 4000
    assert mark.holes == (
        Hole(1000, loss, True),
        Hole(4000, loss, False),
        Hole(6000, State.UNKNOWN, False),
    )


@pytest.mark.parametrize(
    ("windows", "through"),
    [
        ([], 7000),
        ([JudgedWindow(3000, State.COMPLETE)], 7000),
        ([JudgedWindow(7000, State.COMPLETE)], 7000),
        ([JudgedWindow(7000, State.OPEN)], 7000),
        ([JudgedWindow(6000, State.SETTLING)], 6000),
        ([JudgedWindow(-1000, State.LOSS)], 0),
        ([JudgedWindow(0, State.LOSS)], 0),
    ],
)
def test_watermarks(windows: list[JudgedWindow], through: int) -> None:
    assert watermark(windows, 7500, 1000).through == through


def test_windows() -> None:
    assert [window_of(at, 1000) for at in (0, 999, 1000, 2**63 - 1)] == [
        0,
        0,
        1000,
        (2**63 - 1) // 1000 * 1000,
    ]
    assert window_of(-1, 1000) == window_of(-(2**63), 1000) == -1000


def test_percentages_are_never_rounded_up() -> None:
    assert percent(10**9 - 1, 10**9) == "99.9999"
    assert percent(1, 3) == "33.3333"
    assert percent(5, 5) == "100"
    assert percent(0, 0) == "-"


def test_times_for_people() -> None:
    assert utc(1_700_000_000_000) == "2023-11-14T22:13:20Z"
    assert utc(2**63 - 1) == f"{2**63 - 1} ms"
    assert parse_time("2023-11-14T22:13:20") == parse_time("2023-11-14T23:13:20+01:00")
    assert parse_time("1700000000000") == parse_time("2023-11-14T22:13:20Z")
    assert parse_time("2023-11-14") == 1_699_920_000_000
    with pytest.raises(UserError, match="'yesterday' is not a time"):
        parse_time("yesterday")
