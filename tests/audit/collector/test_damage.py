"""Batches that cannot be read: what stands before and behind them is counted, and said is where."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from audit_stage import Stage, span
from audit_stage import deployment as audited
from counting_paths import counting_path as counting_path
from crc32c import crc32c
from hostile_batches import MB, bomb, garbage
from sqlalchemy import create_engine

from tallymark.client.producing.stamps import Stamp
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, Mirror
from tallymark.protocol.records.batch import place_batch, split_batches
from tallymark_audit.alerts.facts import judged_edges, read_facts
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.collector.judging.window_facts import StoreFacts
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import Copied, Gap
from tallymark_audit.judge.copy_progress import Passed, Stop, standing_still
from tallymark_audit.judge.damage import Damage, Damaged
from tallymark_audit.judge.hops import hops_into
from tallymark_audit.judge.verdicts import Clock, State, Verdict, judge
from tallymark_audit.judge.windows import damage_of
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import CellFacts, Observation
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import recounts
from tallymark_audit.store.counted.damage import MOST, damaged_places
from tallymark_audit.store.counted.deleted import note_deleted
from tallymark_audit.store.counted.incidents import add_gap
from tallymark_audit.store.counted.recounts import RecountRequest
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.testing import MemoryCluster, Told

pytestmark = pytest.mark.soak_cases("postgresql")

W = 1000
AUDIT = AuditSettings(window_ms=W, settle_min_ms=500, silence_ms=3000, report_interval_ms=100)
EDGE = "producer-to-dc1"


@dataclass
class Site:
    """One cluster with two partitions, its producer and its collector; time is a number."""

    store: Store
    now: int = 10_000
    cluster: MemoryCluster = field(default_factory=lambda: MemoryCluster(at_once=20))
    next: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.deployment = Deployment(
            clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=1),)),),
            mirrors=(),
            audit=AUDIT,
        )
        self.tally = Tally(ReporterIdentity("producer-" + "61" * 8, "web", "app", "61" * 8, W, 0))
        for place in (("t", 0), ("t", 1), (AUDIT_TOPIC, 0)):
            self.cluster.log(*place)
        self.start()

    def start(self) -> None:
        settings = CollectorSettings("dc1", W, max_wait_ms=0)
        self.collector = Collector(self.store, self.cluster, settings, "x", clock=lambda: self.now)
        self.collector.start()
        edges = derive_edges(self.deployment)
        self.judges = JudgeLoop(self.collector.ledger, edges, AUDIT, clock=lambda: self.now)

    def publish(self, partition: int, count: int = 10, lose: int = 0) -> None:
        first = self.next[partition]
        self.next[partition] += count
        key = TallyKey("t", partition, self.now - self.now % W)
        self.tally.accept(Run(key, first, first + count - 1, self.now, self.now), count, self.now)
        self.tally.settle(key, Outcome.ACKNOWLEDGED, first, first + count - 1, self.now)
        told = [
            Told(Stamp(b"a" * 8, partition, sequence, "web"), self.now)
            for sequence in range(first, first + count - lose)
        ]
        self.cluster.log("t", partition).append(told)

    def run(self, ms: int) -> None:
        for _ in range(0, ms, 500):
            self.now += 500
            for event in self.tally.report(self.now, self.now, False):
                self.tally.published(event.event_number)
                told = [Told(None, self.now, encode_event(event))]
                self.cluster.log(AUDIT_TOPIC).append(told)
            for _ in range(3):
                self.collector.step()
            self.collector.mending.step(self.now)
            self.judges.step(self.now)

    def rows(self) -> dict[int, Any]:
        with self.store.read() as connection:
            found = queries.windows(connection, EDGE, "t")
            return {row["window"]: row for row in reversed(found)}

    def states(self) -> dict[int, str]:
        return {window: row["state"] for window, row in self.rows().items()}

    def incidents(self, kind: str) -> list[Any]:
        with self.store.read() as connection:
            return [row for row in queries.all_incidents(connection) if row["kind"] == kind]

    def alerts(self) -> list[Damaged]:
        with self.store.read() as connection:
            edges = judged_edges(connection, self.deployment, "dc1")
            found = read_facts(connection, self.deployment, "dc1", edges, self.now)
            return list(found.damaged)


@pytest.fixture
def site(database: str) -> Iterator[Site]:
    with open_store(database) as store:
        yield Site(store)


def three_windows(site: Site, lose: int = 0) -> None:
    """At 10, 11 and 12 s, ten messages a partition and window; ``lose`` of partition 1's last."""
    for at in range(3):
        site.publish(0)
        site.publish(1, lose=lose if at == 2 else 0)
        site.now += W


def test_a_damaged_batch_leaves_a_hole_and_says_where(site: Site) -> None:
    """A disk turned a bit in the third batch of t-0. The collector stood still in that partition
    without a word but in its log; every window of the topic, of t-1 too, was UNKNOWN since "the
    counter downstream has not counted since 1970-01-01". Then it said so, and counted nothing of
    what came behind."""
    three_windows(site, lose=2)
    site.cluster.log("t", 0).damage(2)
    site.run(8000)
    rows = site.rows()
    assert site.states()[10_000] == State.COMPLETE
    assert site.states()[11_000] == State.UNKNOWN, "t-0 may hold more of it where it is damaged"
    assert (rows[12_000]["state"], rows[12_000]["missing"]) == (State.LOSS, 12)
    with site.store.read() as connection:
        cells = window_evidence.evidence(connection, EDGE, "t", 12_000).verdicts[0]["cells"]
    by_partition = {cell["partition"]: cell for cell in cells}
    assert by_partition[1]["state"] == State.LOSS
    assert by_partition[0]["state"] == State.UNKNOWN
    for text in ("t-0 of dc1", "at offsets 20 to 29", "CRC"):
        assert text in by_partition[0]["reason"]
        assert text in site.incidents("damaged")[0]["reason"]
    assert (site.incidents("damaged")[0]["from_offset"], len(site.incidents("damaged"))) == (20, 1)
    assert [(one.topic, one.partition, one.offset) for one in site.alerts()] == [("t", 0, 20)]


def test_windows_behind_the_damage_are_judged_and_the_metrics_count_it(site: Site) -> None:
    """One flipped bit, and every later window was UNKNOWN until somebody had mended the log; a
    loss in one of them was never told."""
    three_windows(site)
    site.cluster.log("t", 0).damage(2)
    site.run(5000)
    site.publish(0)
    site.publish(1)
    site.run(5000)
    site.publish(0, lose=3)
    site.run(5000)
    *_, whole, lossy = sorted(site.rows())
    assert site.states()[12_000] == State.UNKNOWN
    assert site.states()[whole] == State.COMPLETE
    assert (site.states()[lossy], site.rows()[lossy]["missing"]) == (State.LOSS, 3)
    metrics = AuditMetrics(site.store, site.deployment, lambda: site.now)
    found = {family.name: family for family in metrics.collect()}
    (sample,) = found["tallymark_audit_damaged_partitions"].samples
    assert (sample.labels, sample.value) == ({"cluster": "dc1", "topic": "t"}, 1.0)
    site.now += 90_000_000
    assert not site.alerts(), "told for a day"


def test_what_is_mended_is_counted_once(site: Site) -> None:
    """Also by a collector that was started again in between, and when the window was counted again
    meanwhile; the incident stays, the alert ends."""
    three_windows(site)
    site.cluster.log("t", 0).damage(2)
    site.run(8000)
    site.start()
    site.publish(0)
    site.run(8000)
    assert site.states()[12_000] == State.UNKNOWN
    assert len(site.incidents("damaged")) == 1, "known by the next one"
    site.cluster.log("t", 0).damage(2)
    with site.store.write() as connection:
        ask = RecountRequest("t", 0, "test", 0, 20_000, 0, site.now)
        recounts.ask(connection, "dc1", [ask])
    site.run(2000)
    site.collector.recounting.step(site.now)
    assert site.states()[12_000] == State.UNKNOWN, "whoever counts again leaves it out, too"
    site.run(60_000)
    assert set(site.states().values()) == {State.COMPLETE}
    assert not site.alerts()
    assert [row["from_offset"] for row in site.incidents("mended")] == [20]
    assert site.rows()[12_000]["observed"] == 20


def test_what_is_gone_before_it_is_mended_is_not_looked_for(site: Site) -> None:
    three_windows(site)
    log = site.cluster.log("t", 0)
    log.damage(2)
    site.run(8000)
    site.publish(0)
    log.expire(3)
    site.run(30_000)
    assert site.states()[12_000] == State.UNKNOWN
    assert not site.collector.ledger.may_be_mended()
    (hole,) = site.collector.ledger.holes(("t", 0))
    assert (hole.start, hole.end, hole.final) == (20, 30, True)


def hostile(site: Site, *data: bytes) -> None:
    """Written to t-0 as it is."""
    log = site.cluster.log("t", 0)
    for one in data:
        room = bytearray(one)
        place_batch(room, 0, log.end, log.epoch)
        log.batches += split_batches(bytes(room))


def test_nonsense_between_good_batches_hides_no_loss(site: Site) -> None:
    """A stranger wrote 300 batches of nonsense under a right CRC, and good ones in between: their
    partition stood still for ever. Now each window but those at the time is judged, and of the
    store they take no more than is said."""
    three_windows(site)
    site.run(3000)
    for seed in range(300):
        hostile(site, garbage(seed, count=3, last_delta=2))
        site.publish(0, 1)
    site.publish(0, lose=4)
    bad = site.now - site.now % W
    site.run(6000)
    site.publish(0, lose=2)
    lossy = site.now - site.now % W
    site.run(6000)
    states = site.states()
    assert [states[at] for at in (10_000, 11_000, 12_000)] == [State.COMPLETE] * 3
    assert states[bad] == State.UNKNOWN
    assert (states[lossy], site.rows()[lossy]["missing"]) == (State.LOSS, 2)
    assert len(site.collector.ledger.holes(("t", 0))) == MOST
    assert len(site.incidents("damaged")) <= MOST + 1
    assert sum(row["count"] for row in site.incidents("damaged")) == 300
    assert site.collector.ledger.positions["t", 0].next_offset == site.cluster.log("t", 0).end


def test_bombs_cost_their_own_partition_a_window_and_nobody_memory(site: Site) -> None:
    """64 kB of batches, each a record of 250 MB of zeros, were unpacked one after the other, and
    the partition was refused for good."""
    three_windows(site)
    hostile(site, *[bomb(250, timestamp=site.now)] * 8)
    site.publish(0)
    tracemalloc.start()
    site.run(8000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * MB
    late = max(site.rows())
    assert site.states()[10_000] == State.COMPLETE
    assert site.states()[late] == State.UNKNOWN
    assert site.rows()[late]["missing"] == 0, "what stands behind them is counted"
    (hole,) = site.collector.ledger.holes(("t", 0))
    assert (hole.start, hole.end, hole.final) == (30, 38, True)
    assert "exceed" in site.rows()[late]["reasons"][0]


def test_no_more_than_a_stated_number_of_bytes_is_unpacked_in_a_round(site: Site) -> None:
    """Ten batches of 20 MB each in a few kB, none too large by itself: the other partitions waited
    until all were unpacked."""
    hostile(site, *[bomb(20, timestamp=site.now)] * 10)
    site.publish(1)
    tracemalloc.start()
    site.collector.step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    positions = site.collector.ledger.positions
    assert (positions["t", 0].next_offset, positions["t", 1].next_offset) == (2, 10)
    assert peak < 150 * MB, "one, its copy, and the room in which it was unpacked"
    for _ in range(4):
        site.collector.step()
    assert site.collector.ledger.positions["t", 0].next_offset == 10


def test_a_log_that_was_cut_is_counted_again_around_a_hole(site: Site) -> None:
    """Counting again met the damaged batch, and the partition stood still for ever."""
    three_windows(site)
    log = site.cluster.log("t", 0)
    log.damage(1)
    site.run(3000)
    site.publish(0)
    site.run(3000)
    log.damage(0)  # since it was counted
    log.cut(3)
    site.publish(0)
    site.run(8000)
    assert site.collector.ledger.positions["t", 0].next_offset == log.end
    assert [row["kind"] for row in site.incidents("truncated")] == ["truncated"]
    assert State.LOSS in site.states().values(), "what the cut took, and was not there again"
    assert site.states()[11_000] == State.UNKNOWN


def test_what_is_damaged_on_the_way_is_no_damage(site: Site) -> None:
    three_windows(site)
    site.cluster.log("t", 0).damage(2)
    site.run(500)
    site.cluster.log("t", 0).damage(2)
    site.run(8000)
    assert not site.incidents("damaged")
    assert set(site.states().values()) == {State.COMPLETE}


def test_a_batch_with_a_right_crc_that_does_not_decode(site: Site) -> None:
    """A producer sent garbage under a right CRC: nothing of the fetch was counted, though two
    batches before it were good."""
    three_windows(site)
    log = site.cluster.log("t", 0)
    data = bytearray(log.batches[2].data)
    data[61:] = b"\xff" * len(data[61:])
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    log.batches[2:] = split_batches(bytes(data))
    site.run(8000)
    assert [row["from_offset"] for row in site.incidents("damaged")] == [20]
    assert list(site.states().values()) == [State.COMPLETE, State.UNKNOWN, State.UNKNOWN]
    assert [row["observed"] for row in site.rows().values()] == [20, 20, 10]


def test_a_damaged_audit_topic_says_so(site: Site) -> None:
    """Claims cannot be read: what is seen is not UNCLAIMED, and the reason names the batch."""
    three_windows(site)
    site.run(500)
    log = site.cluster.log(AUDIT_TOPIC)
    site.publish(0)
    site.run(500)
    log.damage(len(log.batches) - 1)
    site.run(5000)
    states = site.states()
    late = max(states)
    assert states[late] != State.UNCLAIMED
    if site.incidents("damaged"):
        (row,) = site.incidents("damaged")
        assert row["topic"] == AUDIT_TOPIC


MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
CLOCK = Clock(100_000, W, 500, 3000, 100_000, 100_000)


def facts(partition: int, claimed: int, seen: int, copies: int = 0) -> CellFacts:
    key = CellKey("t", partition, 0, "web", "00" * 8)

    def ranges(count: int) -> RangeSet:
        return RangeSet.single(0, count - 1) if count else RangeSet()

    observation = Observation(key, seen + copies, 0, ranges(seen))
    upstream = Observation(key, claimed, 0, ranges(claimed))
    return CellFacts(key, upstream.as_claim() if claimed else None, observation)


def verdict(damage: Damage, *cells: CellFacts, edge: Edge = MIRROR) -> Verdict:
    return judge(edge, "t", 0, cells, [], CLOCK, damage)


@pytest.mark.parametrize(
    ("cell", "side", "state"),
    [
        (facts(0, 10, 8), "downstream", State.UNKNOWN),
        (facts(1, 10, 8), "downstream", State.LOSS),
        (facts(0, 10, 10), "downstream", State.COMPLETE),
        (facts(0, 8, 10), "upstream", State.UNKNOWN),
        (facts(1, 8, 10), "upstream", State.UNCLAIMED),
        (facts(0, 10, 10, copies=1), "upstream", State.UNKNOWN),
        (facts(0, 10, 10, copies=1), "downstream", State.DUPLICATION),
        (facts(0, 10, 8), "upstream", State.LOSS),
    ],
)
def test_only_what_the_damage_may_hide_is_unknown(cell: CellFacts, side: str, state: State) -> None:
    """Windows that ended long before the damage: ``since`` is later."""
    one = Damaged("dc1", "t", 0, 20, "its CRC does not hold", since=50_000)
    (only,) = verdict(Damage(**{side: (one,)}), cell).cells or (None,)
    assert (only.state if only else State.COMPLETE) == state
    spread = one._replace(spread=True)
    if cell.key.partition == 1:
        (only,) = verdict(Damage(**{side: (spread,)}), cell).cells
        assert only.state == State.UNKNOWN, "its records may lie in any partition"


def test_what_a_mirror_cannot_read_is_not_lost_by_it_and_not_under_way() -> None:
    """The mirror stands still at a damaged batch that was counted before: "has not copied it yet"
    is not the whole truth."""
    one = Damaged("dc1", "t", 0, 20, "a batch cannot be read", since=50_000)
    behind = replace(facts(0, 10, 0), in_flight=True)
    found = verdict(Damage(carrier=(one,)), behind)
    assert found.state == State.UNKNOWN
    assert "t-0 of dc1 cannot be read from offset 20" in found.reasons[0]


def test_where_a_mirror_stood_still_in_a_topic_of_before_says_nothing_of_this_one() -> None:
    """A mirror stood still at a damaged batch of a topic, which was deleted and made again. What it
    has still to copy of the new topic was UNKNOWN, "cannot be read from offset 20 on"."""
    stops = [Stop(0, 20, 1000), Stop(1, 5, 9000)]
    assert {one.partition for one in standing_still(MIRROR, "t", stops, {})} == {0, 1}
    (left,) = standing_still(MIRROR, "t", stops, {}, began=2000)
    assert (left.partition, left.offset) == (1, 5)
    assert standing_still(MIRROR, "t", stops, {1: Passed(6)}, began=2000) == []


def test_a_mirror_that_stands_still_at_the_same_offset_of_the_new_topic_is_heard(
    database: str,
) -> None:
    """The first batch of a topic could not be read; the topic was made again, and its first batch
    could not be read either: the second word looked like the first, repeated."""
    mirror = "mirror-dc1-to-aggregate"
    with open_store(database) as store:
        hops = hops_into(
            derive_edges(audited(Mirror(source="dc1", target="aggregate"))), "aggregate"
        )
        (hop,) = [one for one in hops if one.edge.kind == "mirror"]

        def carrier(*gaps: Gap) -> list[int]:
            with store.write() as connection:
                for gap in gaps:
                    add_gap(connection, "aggregate", mirror, gap)
                source = StoreFacts(connection, AuditSettings(), 5000)
                known, carried = source.known(hop), source.carried(hop.edge, "t", [])
                damage = damage_of(source, hop, "t", known, carried, {})
                return [one.offset for one in damage.carrier]

        assert carrier(Gap("t", 0, 5, 5, "damaged", 1000)) == [5]
        with store.write() as connection:
            note_deleted(connection, "dc1", [("t", 1)], 2000)
        assert carrier() == []
        assert carrier(Gap("t", 0, 5, 5, "damaged", 1000)) == []
        assert carrier(Gap("t", 0, 5, 5, "damaged", 3000)) == [5]


def test_a_mirror_that_stands_still_at_a_damaged_batch_makes_it_unknown(database: str) -> None:
    """What dc1 counted before its disk turned a bit, and the mirror cannot read: the window was
    SETTLING for ever, "has not copied it yet". It passes when the mirror says that it came by."""
    with open_store(database) as store:
        stage = Stage(store, audited(Mirror(source="dc1", target="aggregate")))
        stage.counted("dc1", "t")
        stage.counted("aggregate", "t")
        stage.see("dc1", "t", span(0, 9))
        stage.see("aggregate", "t", span(0, 4))
        told: dict[str, Any] = {"kind": "mirror", "reporter": "mirror-dc1-to-aggregate"}
        at = Copied("t", 0, "t", "", 5, 5)
        stopped = Gap("t", 0, 5, 5, "damaged", stage.now)
        stage.tell("aggregate", gaps=(stopped,), copied=(at,), **told)
        with store.write() as connection:
            add_gap(connection, "aggregate", "mirror-dc1-to-aggregate", stopped)
        stage.now += 10_000
        stage.counted("dc1", "t")
        stage.counted("aggregate", "t")
        stage.tell("aggregate", event_number=1, **told)
        stage.judge("aggregate")
        row = stage.row("dc1-to-aggregate", "t")
        assert (row["state"], row["missing"]) == (State.UNKNOWN, 5)
        assert "t-0 of dc1 cannot be read from offset 5 on" in row["reasons"][0]
        assert "CRC" in row["reasons"][0]
        with store.read() as connection:
            (incident,) = queries.all_incidents(connection)
        assert (incident["kind"], incident["from_offset"]) == ("gap", 5)
        assert "CRC" in incident["reason"]
        past = Copied("t", 0, "t", "", 10, 10)
        stage.tell("aggregate", event_number=2, copied=(past,), **told)
        stage.see("aggregate", "t", span(0, 9))
        stage.now += 10_000
        stage.counted("dc1", "t")
        stage.counted("aggregate", "t")
        stage.judge("aggregate")
        assert stage.state("dc1-to-aggregate", "t") == State.COMPLETE


OLD_TABLE = """
CREATE TABLE damage (
    cluster VARCHAR(255) NOT NULL, topic VARCHAR(255) NOT NULL, partition BIGINT NOT NULL,
    from_offset BIGINT NOT NULL, reason VARCHAR(255) NOT NULL, since BIGINT NOT NULL,
    "at" BIGINT NOT NULL, PRIMARY KEY (cluster, topic, partition))
"""
OLD_ROW = "('dc1', 't', 0, 20, 'a CRC', 11500, 9000)"


def test_a_store_in_which_an_older_program_stopped_goes_on(database: str) -> None:
    """Its row says from where on nothing is counted; the new table has a row for each stretch."""
    with open_store(database):
        pass
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE damage")
        connection.exec_driver_sql(OLD_TABLE)
        connection.exec_driver_sql("INSERT INTO damage VALUES" + OLD_ROW)
        connection.exec_driver_sql("UPDATE meta SET value = '5' WHERE key = 'schema'")
    engine.dispose()
    with open_store(database) as store:
        site = Site(store)
        with store.read() as connection:
            assert damaged_places(connection, "dc1") == {("t", 0)}
        three_windows(site)
        site.cluster.log("t", 0).damage(2)
        site.run(8000)
        site.publish(0)
        site.run(5000)
        assert site.collector.ledger.damaged == frozenset()
        (hole,) = site.collector.ledger.holes(("t", 0))
        assert (hole.start, hole.end) == (20, 30)
        assert site.states()[max(site.states())] == State.COMPLETE
