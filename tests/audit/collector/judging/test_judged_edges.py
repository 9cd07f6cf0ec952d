"""Edges of every kind judged from a store: renames, chains of mirrors, collisions, groups, mirrors
that lag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_stage import BILLING, CHAIN, INTO, NAMES, WHO, Stage, W, deployment, span
from sqlalchemy import select

from tallymark.client.producing.stamps import Stamp
from tallymark.deployment import Mirror
from tallymark_audit.collector.judging.locate import HeldCell, OffsetRange, changed
from tallymark_audit.events.events import CellReport, Copied, Gap
from tallymark_audit.judge.hops import hops_into
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import collision, derive_edges, origins, passes
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import claims
from tallymark_audit.store.counted.incidents import TRUNCATED, Incident, add_gap, add_incident
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema import tables
from tallymark_audit.testing import MemoryCluster, Told


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield store


# --- derived ------------------------------------------------------------------------------------


def test_filters_and_names_of_an_edge() -> None:
    (edge,) = [
        one
        for one in derive_edges(
            deployment(
                INTO.model_copy(update={"topics": "c.*", "exclude": "cold"}),
                topics=r"(dc1\.)?c[^x]*",
            )
        )
        if one.kind == "mirror"
    ]
    names = ("clicks", "cold", "views", "_c", "cx")
    assert [name for name in names if passes(edge, name)] == ["clicks"]
    assert edge.downstream_topic("clicks") == "dc1.clicks"
    assert edge.upstream_topics("dc1.clicks", ["clicks", "views", "x.clicks"]) == ("clicks",)
    # audit.topics has to match both names: what nobody counts downstream is not owed.
    one_sided = derive_edges(deployment(INTO, topics="clicks"))
    assert not any(passes(one, "clicks") for one in one_sided if one.kind == "mirror")


def test_a_chain_of_mirrors_and_groups() -> None:
    edges = derive_edges(deployment(*CHAIN, consumers=(BILLING,)))
    assert [(one.name, one.home) for one in edges if one.kind != "producer"] == [
        ("dc1-to-aggregate", "aggregate"),
        ("dc2-to-aggregate", "aggregate"),
        ("aggregate-to-backup", "backup"),
        ("dc1-to-group:billing", "dc1"),
    ]
    assert origins(edges, "backup") == {"backup", "aggregate", "dc1", "dc2"}
    (last,) = [hop for hop in hops_into(edges, "backup") if hop.edge.kind == "mirror"]
    assert last.homes({"a": "dc1", "b": "backup", "c": "nowhere"}) == {
        "a": "aggregate",
        "b": "backup",
    }
    assert last.upstreams("dc1.clicks", {"aggregate": {"dc1.clicks", "dc2.clicks"}}) == {
        "aggregate": ("dc1.clicks",)
    }


def test_two_topics_with_one_name_are_named() -> None:
    mirror = Mirror(source="dc1", target="aggregate", renames={"click.*": "all"})
    edge = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror", mirror=mirror)
    assert collision(edge, "clicks", ["clicks", "views"]) == ""
    why = collision(edge, "clicks", ["clicks", "clicks2"])
    assert "clicks, clicks2 into one topic all" in why
    assert collision(edge, "all", ["clicks", "all"]) != ""


# --- judged -------------------------------------------------------------------------------------


def test_a_renamed_topic_is_judged_along_a_chain(store: Store) -> None:
    """clicks of dc1 is dc1.clicks in the aggregate, and clicks again in its backup. Each hop's
    verdict has the upstream's name; nothing is a stranger anywhere."""
    stage = Stage(store, deployment(*CHAIN))
    stage.claim("clicks", span(0, 9))
    stage.see("dc1", "clicks", span(0, 9))
    stage.see("aggregate", "dc1.clicks", span(0, 7))
    stage.see("backup", "clicks", span(0, 4))
    stage.now += 50_000
    stage.tell("dc1", event_number=1, covers_from=0)
    for name, topic in (("dc1", "clicks"), ("aggregate", "dc1.clicks"), ("backup", "clicks")):
        stage.counted(name, topic)
    stage.counted("dc2")
    for name in NAMES:
        stage.judge(name)
    assert stage.state("producer-to-dc1", "clicks") == "COMPLETE"
    assert (
        str(RangeSet.from_list(stage.row("dc1-to-aggregate", "clicks")["cells"][0]["missing"]))
        == "8-9"
    )
    assert stage.row("aggregate-to-backup", "dc1.clicks")["missing"] == 3
    assert stage.state("dc1-to-aggregate", "dc1.clicks") == "none"
    for edge, topic in (("producer-to-aggregate", "dc1.clicks"), ("producer-to-backup", "clicks")):
        assert stage.state(edge, topic) in ("none", "COMPLETE")
    with store.read() as connection:
        found = window_evidence.evidence(connection, "dc1-to-aggregate", "clicks", 0)
    assert [row["ranges"] for row in (*found.upstream, *found.downstream)] == [[0, 9], [0, 7]]
    # What arrives late, under the other name, opens the window again.
    stage.see("aggregate", "dc1.clicks", span(0, 9))
    stage.judge("aggregate")
    assert stage.state("dc1-to-aggregate", "clicks") == "SETTLING"
    stage.now += 1000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.now += 2000
    stage.judge("aggregate")
    assert stage.state("dc1-to-aggregate", "clicks") == "COMPLETE"


def test_what_upstream_lost_after_it_was_copied_is_no_stranger_two_hops_on(store: Store) -> None:
    """The aggregate's log was cut after the backup had copied it. The instance reports on dc1, two
    hops up: its records still came through the aggregate."""
    stage = Stage(store, deployment(*CHAIN))
    stage.claim("clicks", span(0, 9), closed=True)
    stage.see("dc1", "clicks", span(0, 9))
    stage.see("backup", "clicks", span(0, 9))
    stage.now += 50_000
    for name, topic in (("dc1", "clicks"), ("aggregate", "dc1.clicks"), ("backup", "clicks")):
        stage.counted(name, topic)
    stage.judge("backup")
    assert stage.state("producer-to-backup", "clicks") == "none"
    assert stage.state("aggregate-to-backup", "dc1.clicks") == "UNCLAIMED"


def test_a_collision_is_unknown_and_an_incident(store: Store) -> None:
    """clicks and clicks2 become one topic. Run 61... wrote number 0-9 to each: in the aggregate
    nobody can tell which arrived, so the verdict must not pretend to."""
    mirror = Mirror(source="dc1", target="aggregate", renames={"click.*": "all"})
    stage = Stage(store, deployment(mirror))
    for topic in ("clicks", "clicks2"):
        stage.see("dc1", topic, span(0, 9))
    stage.see("aggregate", "all", span(0, 9))
    stage.now += 50_000
    stage.counted("dc1", "clicks", "clicks2")
    stage.counted("aggregate", "all")
    stage.judge("aggregate")
    for topic in ("clicks", "clicks2"):
        row = stage.row("dc1-to-aggregate", topic)
        assert row["state"] == "UNKNOWN"
        assert "into one topic all" in row["reasons"][0]
    with store.read() as connection:
        met = queries.all_incidents(connection)
    assert {(one["kind"], one["topic"]) for one in met} == {
        ("collision", "clicks"),
        ("collision", "clicks2"),
    }


def mirror_says(stage: Stage, through: int, number: int, **more: Any) -> None:
    stage.tell(
        "aggregate",
        kind="mirror",
        reporter="mirror-dc1-to-aggregate",
        instance="",
        event_number=number,
        copied=(Copied("clicks", 0, "dc1.clicks", "", through),),
        **more,
    )


def lagging(store: Store) -> Stage:
    """dc1 has 0-9 at offsets 0-9, the aggregate 0-4; the mirror has come to offset 5."""
    stage = Stage(store, deployment(*CHAIN))
    stage.see("dc1", "clicks", span(0, 9))
    stage.see("aggregate", "dc1.clicks", span(0, 4))
    mirror_says(stage, 5, 0)
    stage.now += 50_000
    mirror_says(stage, 5, 1)
    stage.counted("dc1", "clicks")
    stage.now += 1
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    return stage


def test_a_lagging_mirror_settles_and_a_silent_one_is_unknown(store: Store) -> None:
    stage = lagging(store)
    edge = "dc1-to-aggregate"
    assert stage.state(edge, "clicks") == "SETTLING"
    stage.now += 5000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    assert stage.state(edge, "clicks") == "UNKNOWN"
    assert "silent" in stage.row(edge, "clicks")["reasons"][0]
    with store.write() as connection:
        assert claims.retire(connection, "mirror-dc1-to-aggregate", stage.now) == ["aggregate"]
    stage.judge("aggregate")
    assert stage.state(edge, "clicks") == "LOSS"
    # It speaks again: it is back, and so is what it may bring.
    stage.now += 1000
    mirror_says(stage, 5, 2)
    stage.see("dc1", "clicks", span(0, 10), window=W)
    stage.now += 2000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    assert stage.state(edge, "clicks", W) == "SETTLING"


def test_what_the_mirror_has_passed_and_is_not_there_is_lost(store: Store) -> None:
    stage = lagging(store)
    mirror_says(stage, 10, 2)
    stage.now += 3000
    stage.judge("aggregate")
    # The counter has not looked since the mirror said so.
    assert stage.state("dc1-to-aggregate", "clicks") == "SETTLING"
    stage.counted("aggregate", "dc1.clicks")
    stage.now += 3000
    stage.judge("aggregate")
    assert (
        stage.state("dc1-to-aggregate", "clicks"),
        stage.row("dc1-to-aggregate", "clicks")["missing"],
    ) == ("LOSS", 5)


def test_a_mirror_that_repeats_itself_is_not_waited_for_anew(store: Store) -> None:
    """A heartbeat came just after each look of the counter, so the counter had never looked since
    the mirror last spoke, though it had said the same for minutes: the loss stayed SETTLING."""
    stage = lagging(store)
    mirror_says(stage, 10, 2)
    stage.now += 6000
    stage.counted("aggregate", "dc1.clicks")
    mirror_says(stage, 10, 3)
    stage.judge("aggregate")
    assert stage.state("dc1-to-aggregate", "clicks") == "LOSS"


def test_an_older_word_of_the_mirror_changes_nothing(store: Store) -> None:
    stage = lagging(store)
    old = stage.now
    stage.now += 1000
    mirror_says(stage, 10, 3)
    mirror_says(stage, 5, 2, emitted_at=old)
    with store.read() as connection:
        row = connection.execute(select(tables.copied)).mappings().one()
    assert row["through_offset"] == 10


def test_what_retention_took_before_it_was_copied_is_lost_with_that_reason(store: Store) -> None:
    stage = lagging(store)
    with store.write() as connection:
        add_gap(
            connection, "aggregate", "mirror-dc1-to-aggregate", Gap("clicks", 0, 5, 7, "retention")
        )
    mirror_says(stage, 10, 2)
    stage.now += 1
    stage.counted("aggregate", "dc1.clicks")
    stage.now += 12_000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    row = stage.row("dc1-to-aggregate", "clicks")
    assert (row["state"], row["cells"][0]["missing"]) == ("LOSS", [5, 9])
    assert row["cells"][0]["explanations"] == {"expired": [5, 7]}


def group_says(stage: Stage, member: str, sequences: RangeSet, through: int, **more: Any) -> None:
    cell = CellReport(
        "clicks",
        0,
        0,
        "web",
        WHO,
        accepted=sequences,
        acknowledged=sequences,
        **more.pop("cell", {}),
    )
    stage.tell(
        "dc1",
        kind="consumer",
        reporter=member,
        instance="",
        consumer_group="billing",
        cells=(cell,),
        copied=(Copied("clicks", 0, "", "", through),),
        **more,
    )


def test_a_group_that_reports_is_found_and_judged(store: Store) -> None:
    """Nobody declared it. Two members have processed 0-9 between them, one number twice."""
    stage = Stage(store, deployment(*CHAIN), now=0)
    group_says(stage, "one", span(0, 5), 6)
    group_says(stage, "two", span(5, 9), 10)
    stage.see("dc1", "clicks", span(0, 9))
    stage.now += 50_000
    for at, member in enumerate(("one", "two")):
        stage.tell("dc1", kind="consumer", reporter=member, instance="", consumer_group="billing",
                   event_number=1, covers_from=1 - at * 0, closed=True)  # fmt: skip
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    row = stage.row("dc1-to-group:billing", "clicks")
    assert (row["state"], row["missing"], row["duplicates"]) == ("DUPLICATION", 0, 1)
    with store.read() as connection:
        found = window_evidence.evidence(connection, "dc1-to-group:billing", "clicks", 0)
        assert [row["ranges"] for row in found.downstream] == [[0, 5], [5, 9]]
        marks = connection.execute(select(tables.watermarks)).mappings().all()
    assert "dc1-to-group:billing" in {mark["edge"] for mark in marks}


def test_a_group_that_goes_on_is_believed_at_once(store: Store) -> None:
    """What a group has processed stands in the reports that say how far it has come: there is
    nothing to be counted afterwards. A group that reported in time with the collector's looks kept
    its losses SETTLING for a minute and a half, until a repair moved it."""
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    stage.see("dc1", "clicks", span(0, 9))
    group_says(stage, "one", span(0, 5), 6)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.tell("dc1", kind="consumer", reporter="one", instance="", consumer_group="billing",
               event_number=1, copied=(Copied("clicks", 0, "", "", 20),))  # fmt: skip
    stage.judge("dc1")
    row = stage.row("dc1-to-group:billing", "clicks")
    assert (row["state"], row["missing"]) == ("LOSS", 4)


@pytest.mark.parametrize("journal", [True, False])
def test_a_member_that_was_killed_holds_what_it_may_have_processed(
    store: Store, journal: bool
) -> None:
    """It had reported five messages, was killed with three more processed, and all that were left
    were processed by another one: COMPLETE. Its journal names the three; without one nothing is
    known of them until a person ends the member."""
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    edge = "dc1-to-group:billing"
    stage.see("dc1", "clicks", span(0, 9))
    group_says(stage, "one", span(0, 4), 5)
    stage.now += 10
    group_says(stage, "two", span(5, 9), 10)
    for _ in range(20):
        stage.now += 30_000
        number = stage.now // 30_000
        stage.tell("dc1", kind="consumer", reporter="two", instance="", consumer_group="billing",
                   event_number=number, covers_from=0)  # fmt: skip
        stage.counted("dc1", "clicks")
        stage.judge("dc1")
    assert stage.state(edge, "clicks") == "UNKNOWN"
    assert "one on " in stage.row(edge, "clicks")["reasons"][0]
    if journal:
        group_says(stage, "one", span(0, 7), 5, event_number=1, closed=True, cell={"revision": 2})
    else:
        with store.write() as connection:
            claims.retire(connection, "one", stage.now)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    row = stage.row(edge, "clicks")
    wanted = ("DUPLICATION", 3) if journal else ("COMPLETE", 0)
    assert (row["state"], row["duplicates"]) == wanted


def test_who_left_a_partition_before_its_log_was_cut_has_no_say_any_more(store: Store) -> None:
    """One member had come to offset 250 and left. The log was cut at 100, and its successor began
    there: what stood behind it now was called lost before anybody had come to it."""
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    group_says(stage, "one", span(0, 4), 250)
    stage.see("dc1", "clicks", span(0, 150))
    stage.now += 10
    group_says(stage, "two", span(5, 110), 111)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    for member, through in (("one", 250), ("two", 111)):
        stage.tell("dc1", kind="consumer", reporter=member, instance="", consumer_group="billing",
                   event_number=1, copied=(Copied("clicks", 0, "", "", through),))  # fmt: skip
    stage.judge("dc1")
    row = stage.row("dc1-to-group:billing", "clicks")
    assert (row["state"], row["missing"]) == ("SETTLING", 40)


def log_is_cut(stage: Stage, offset: int, counted_to: int) -> None:
    """The collector of dc1 has seen it."""
    cut = Incident(TRUNCATED, "the log was cut", "clicks", 0, offset, counted_to)
    with stage.store.write() as connection:
        add_incident(connection, "dc1", cut, stage.now)


def test_a_group_that_was_away_when_a_log_was_cut_has_not_passed_what_came_since(
    store: Store,
) -> None:
    """A broker lost the end of its log, and the only member of the group, which had come further,
    was killed. The messages that then took these offsets were LOSS until its successor reported:
    the word of before the cut was taken for one on them (seed 15 of the drill, on a busy machine).
    """
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    edge = "dc1-to-group:billing"
    group_says(stage, "one", span(0, 4), 250)
    stage.now += 10
    log_is_cut(stage, 5, 250)
    stage.see("dc1", "clicks", span(0, 9))
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.tell("dc1", kind="consumer", reporter="one", instance="", consumer_group="billing",
               event_number=1, closed=True)  # fmt: skip
    stage.tell("dc1", kind="consumer", reporter="two", instance="", consumer_group="billing")
    stage.judge("dc1")
    row = stage.row(edge, "clicks")
    assert (row["state"], row["missing"]) == ("SETTLING", 5)
    assert row["reasons"] == ["the group has not come to it yet"]
    group_says(stage, "two", span(5, 8), 10, event_number=1)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    row = stage.row(edge, "clicks")
    assert (row["state"], row["missing"]) == ("LOSS", 1), "what it passes over is still lost"


def test_a_mirror_that_was_away_when_a_log_was_cut_has_not_passed_what_came_since(
    store: Store,
) -> None:
    stage = Stage(store, deployment(INTO))
    mirror: dict[str, Any] = {
        "kind": "mirror", "reporter": "mirror-dc1-to-aggregate", "instance": ""
    }  # fmt: skip
    stage.tell("aggregate", **mirror, copied=(Copied("clicks", 0, "dc1.clicks", "", 250),))
    stage.now += 10
    log_is_cut(stage, 5, 250)
    stage.see("dc1", "clicks", span(0, 9))
    stage.see("aggregate", "dc1.clicks", span(0, 4))
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.tell("aggregate", **mirror, event_number=1)
    stage.judge("aggregate")
    row = stage.row("dc1-to-aggregate", "clicks")
    assert (row["state"], row["missing"]) == ("SETTLING", 5)
    stage.tell("aggregate", **mirror, event_number=2,
               copied=(Copied("clicks", 0, "dc1.clicks", "", 10),))  # fmt: skip
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    row = stage.row("dc1-to-aggregate", "clicks")
    assert (row["state"], row["missing"]) == ("LOSS", 5)


def test_how_far_a_group_has_come_is_believed_with_what_it_has_done(store: Store) -> None:
    """The first event of a report was lost, the second one said how far the group had come."""
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    stage.tell("dc1", kind="consumer", reporter="one", instance="", consumer_group="billing",
               event_number=1, group=2, copied=(Copied("clicks", 0, "", "", 9),))  # fmt: skip
    with store.read() as connection:
        assert connection.execute(select(tables.copied)).all() == []
    stage.tell("dc1", kind="consumer", reporter="one", instance="", consumer_group="billing",
               event_number=2, copied=(Copied("clicks", 0, "", "", 9),))  # fmt: skip
    with store.read() as connection:
        assert len(connection.execute(select(tables.copied)).all()) == 1


def test_a_declared_group_that_never_reports_is_unknown(store: Store) -> None:
    stage = Stage(store, deployment(*CHAIN, consumers=(BILLING,)))
    stage.see("dc1", "clicks", span(0, 9))
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    row = stage.row("dc1-to-group:billing", "clicks")
    assert (row["state"], row["reasons"]) == ("UNKNOWN", ["no member of the group has reported"])


# --- named --------------------------------------------------------------------------------------


def test_the_records_of_a_corrupt_block_that_differ_are_named() -> None:
    """A block is 1,024 sequences. Both sides are read once more to say which of them it is."""
    above, below = MemoryCluster(), MemoryCluster()
    for cluster, topic, wrong in ((above, "t", -1), (below, "x", 3)):
        told = [
            Told(Stamp(b"a" * 8, 0, n, "web"), 0, b"changed" if n == wrong else b"value")
            for n in range(6)
        ]
        cluster.log(topic).append(told[:4])
        cluster.log(topic).append(told[4:])
    key = CellKey("t", 0, 0, "web", "61" * 8)
    within = [OffsetRange(0, 0, 5)]
    found = changed(key, span(0, 1023), HeldCell(above, "t", within), HeldCell(below, "x", within))
    assert found == [(0, 3, 3)]
