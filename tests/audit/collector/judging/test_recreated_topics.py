"""Topics that were deleted, made again, or came back with fewer partitions, and what that says of
their windows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged_world import (
    Publisher,
    W,
    World,
    heartbeats,
    parts_of,
    publisher,
    steady,
    world_in,
)

from tallymark.errors import CODES, KafkaError
from tallymark_audit.collector.partitions.vanishing import PATIENCE_MS, Vanishing, deleted_of
from tallymark_audit.events.events import Copied, Gap
from tallymark_audit.judge.copy_progress import GapOf, Part, reasons_of
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.cells import EXPIRED, CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.store.counted import facts
from tallymark_audit.store.counted.deleted import began_anew, deleted_places
from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.alarms import backlogs
from tallymark_audit.store.schema.tables import incidents
from tallymark_audit.testing.clusters import MemoryTopic


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


def delete_topic(world: World, cluster: str, topic: str = "t") -> None:
    there = world.clusters[cluster]
    there.ids.pop(topic)
    for place in [place for place in there.logs if place[0] == topic]:
        there.logs.pop(place)
        world.copied.pop((cluster, *place), None)


def two_partitions(world: World, one: Publisher, ms: int = 3000) -> None:
    """Publish to both partitions for a while, mirrored at once."""
    for _ in range(0, ms, 500):
        for partition in (0, 1):
            one.publish(world.now, 5, partition=partition)
        one.report(world.now)
        world.mirror("dc1")
        mirror_tells(world)
        world.run(500)


def mirror_tells(world: World, behind: int = 0) -> None:
    """The mirror out of dc1 says how far it has copied what there is."""
    there = world.clusters["dc1"]
    copied = [
        Copied(t, p, t, there.ids[t].hex, log.end - behind)
        for (t, p), log in there.logs.items()
        if t == "t"
    ]
    world.mirror_reports("dc1", copied=copied)


def marks(world: World, edge: str) -> int:
    with world.store.read() as connection:
        found = {(t.edge, t.topic): t.through for t in queries.overview(connection)}
    return found[edge, "t"]


def live(world: World, one: Publisher, ms: int) -> None:
    """Let time pass while producer and mirror are alive."""
    for _ in range(0, ms, 1000):
        one.report(world.now)
        mirror_tells(world)
        world.run(1000)


def test_a_topic_that_comes_back_with_fewer_partitions_is_judged(world: World) -> None:
    """A topic of two partitions was deleted and made again with one. The progress of the other,
    which was never counted any more, held every window of the topic: UNKNOWN for ever, those of
    the new topic too."""
    one = publisher(world, "dc1", b"a")
    two_partitions(world, one)
    live(world, one, 4000)
    delete_topic(world, "dc1")
    world.clusters["dc1"].log("t", 0)
    live(world, one, 8000)
    began = world.now
    for _ in range(6):
        one.publish(world.now, 5)
        one.report(world.now)
        world.mirror("dc1")
        live(world, one, 1000)
    live(world, one, 12_000)
    for edge in ("producer-to-dc1", "dc1-to-aggregate"):
        states = world.states(edge)
        assert {at >= began - began % W for at in states} == {True, False}
        assert set(states.values()) == {State.COMPLETE}, (edge, states)
        assert marks(world, edge) > began + 5000


def test_the_watermark_of_a_deleted_topic_goes_on(world: World) -> None:
    """A topic was deleted: its watermark stood still, an alert said so for ever, and a window that
    the mirror had not copied to its end waited for it."""
    one = publisher(world, "dc1", b"a")
    two_partitions(world, one)
    one.publish(world.now, 7)
    one.report(world.now)
    lost = world.now - world.now % W
    mirror_tells(world, behind=7)
    world.run(1000)
    delete_topic(world, "dc1")
    live(world, one, 20_000)
    assert marks(world, "producer-to-dc1") > world.now - 5000
    row = world.verdicts("dc1-to-aggregate")[lost]
    assert (row["state"], row["missing"]) == (State.LOSS, 7)
    assert set(row["cells"][0]["explanations"]) == {EXPIRED}
    assert marks(world, "dc1-to-aggregate") == lost
    states = world.states("producer-to-dc1")
    assert set(states.values()) == {State.COMPLETE}
    with world.store.read() as connection:
        assert backlogs.collector_backlogs(connection, "dc1") == []
        assert began_anew(connection, "dc1")["t"] > lost


def test_how_far_a_mirror_was_in_the_topic_of_before_says_nothing_of_the_new_one(
    world: World,
) -> None:
    """The mirror had copied 60 records of a topic that was deleted and made again. Until it told of
    the new one, what lay there was LOSS: it had "passed" those offsets."""
    one = publisher(world, "dc1", b"a")
    two_partitions(world, one)
    live(world, one, 4000)
    old = {p: world.clusters["dc1"].log("t", p).end for p in (0, 1)}
    identity = world.clusters["dc1"].ids["t"].hex
    delete_topic(world, "dc1")
    for partition in old:
        world.clusters["dc1"].log("t", partition)
    world.run(2000)
    began = world.now - world.now % W
    one.publish(world.now, 5)
    for _ in range(8):
        one.report(world.now)
        told = [Copied("t", p, "t", identity, end) for p, end in old.items()]
        world.mirror_reports("dc1", copied=told)
        world.run(1000)
    assert world.states("dc1-to-aggregate")[began] == State.SETTLING
    world.mirror("dc1")
    live(world, one, 12_000)
    assert world.states("dc1-to-aggregate")[began] == State.COMPLETE


def test_a_partition_that_is_named_again_is_waited_for_again(world: World) -> None:
    """A cluster that leaves out a topic for a while has not deleted it."""
    one = publisher(world, "dc1", b"a")
    two_partitions(world, one)
    logs = {p: world.clusters["dc1"].logs.pop(("t", p)) for p in (0, 1)}
    live(world, one, 8000)
    with world.store.read() as connection:
        assert deleted_places(connection, "dc1") == {("t", 0), ("t", 1)}
    for partition, log in logs.items():
        world.clusters["dc1"].logs["t", partition] = log
    two_partitions(world, one, ms=1000)
    live(world, one, 12_000)
    with world.store.read() as connection:
        assert not deleted_places(connection, "dc1")
        assert not began_anew(connection, "dc1")
    assert set(world.states("producer-to-dc1").values()) == {State.COMPLETE}
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}


def test_a_topic_that_the_collector_may_no_longer_describe_is_not_deleted(world: World) -> None:
    """Someone took the collector's Describe right on a topic away. Kafka then leaves the topic out
    of a list of all; it was called deleted, and what its mirror had still to bring was LOSS."""
    one = publisher(world, "dc1", b"a")
    two_partitions(world, one)
    one.publish(world.now, 7)
    one.report(world.now)
    at = world.now - world.now % W
    mirror_tells(world, behind=7)
    world.run(1000)
    world.clusters["dc1"].hidden.add("t")
    for _ in range(20):
        one.report(world.now)
        mirror_tells(world, behind=7)
        world.run(1000)
    with world.store.read() as connection:
        assert not deleted_places(connection, "dc1")
        assert facts.counted_through(connection, "dc1", "t") < world.now - 15_000
    assert world.states("dc1-to-aggregate")[at] != State.LOSS
    world.clusters["dc1"].hidden.clear()
    world.mirror("dc1")
    live(world, one, 12_000)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}


def test_only_a_clear_answer_is_a_deletion() -> None:
    """A topic that has an error, or may not be described, is lacking in a list of all, as one that
    was deleted is."""
    there = [("t", 0), ("t", 1)]
    topic = MemoryTopic("t", uuid.uuid4(), (0,))
    assert deleted_of(there, {"t": topic}) == ([("t", 1)], {})
    for name in ("TOPIC_AUTHORIZATION_FAILED", "LEADER_NOT_AVAILABLE", "INVALID_TOPIC_EXCEPTION"):
        error = KafkaError(CODES[name], "topic t")
        assert deleted_of(there, {"t": error}) == ([], {"t": error})
    unknown = KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], "topic t")
    assert deleted_of(there, {"t": unknown}) == (there, {})
    assert deleted_of(there, {}) == ([], {})


def test_a_cluster_that_lists_nothing_has_not_deleted_everything() -> None:
    """A broker that has just come up listed no topic at all for longer than is waited for."""
    following = Vanishing({("t", 0)})
    assert following.look(set(), 0) == ([], [])
    assert following.look(set(), 10 * PATIENCE_MS) == ([], [])
    assert following.look({("u", 0)}, 10 * PATIENCE_MS) == ([], [])


def test_a_partition_is_called_deleted_when_it_was_not_named_for_a_while() -> None:
    following = Vanishing({("t", 0), ("t", 1)})
    assert following.look({("t", 0)}, 1000) == ([], [])
    assert following.look({("t", 0), ("t", 1)}, 3000) == ([], [])
    assert following.look({("t", 0)}, 4000) == ([], [])
    assert following.look({("t", 0)}, 4000 + PATIENCE_MS) == ([("t", 1)], [])
    following.noted([("t", 1)], [], [])
    assert following.look({("t", 0)}, 99_000) == ([], [])
    assert following.look({("t", 0), ("t", 1)}, 99_000) == ([], [("t", 1)])


@pytest.mark.parametrize("partitions", [(0,), ()])
def test_what_a_mirror_had_fetched_of_a_log_that_is_gone_is_not_lost_at_once(
    world: World, partitions: tuple[int, ...]
) -> None:
    """A topic was deleted (and made again) while its mirror waited for a broker of the target, with
    a second of the old log in its hands. As soon as the collector at home noticed, the other one
    called that LOSS, and took it back when the mirror brought it."""
    one = publisher(world, "dc1", b"a")
    steady(world, one)
    mirror_tells(world)
    known = len(world.clusters["dc1"].log("t", 0).batches)
    one.publish(world.now, 10)
    fetched = world.clusters["dc1"].log("t", 0).batches[known:]
    for _ in range(3):
        one.report(world.now)
        mirror_tells(world, behind=10)
        world.run(1000)
    delete_topic(world, "dc1")
    for partition in partitions:
        world.clusters["dc1"].log("t", partition)
    told: set[str] = set()
    for second in range(20):
        if second == 2:
            for batch in fetched:
                log = world.clusters["aggregate"].log("t", 0)
                log.append_records([parts_of(record) for record in batch.records()])
        one.report(world.now)
        world.mirror_reports("dc1")
        world.run(1000)
        told |= set(world.states("dc1-to-aggregate").values())
    assert State.LOSS not in told
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}


def test_what_a_mirror_never_brings_of_a_log_that_is_gone_is_lost(world: World) -> None:
    """It is waited for, not for ever."""
    one = publisher(world, "dc1", b"a")
    steady(world, one)
    one.publish(world.now, 10)
    for _ in range(3):
        one.report(world.now)
        mirror_tells(world, behind=10)
        world.run(1000)
    delete_topic(world, "dc1")
    world.clusters["dc1"].log("t", 0)
    for _ in range(20):
        one.report(world.now)
        world.mirror_reports("dc1")
        world.run(1000)
    assert State.LOSS in world.states("dc1-to-aggregate").values()
