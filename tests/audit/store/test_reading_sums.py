"""What pages read: sums of any period, each message once; the worst topics first; incidents that
stay after the repair; and how old all of it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from sqlalchemy import Connection, select, update

from tallymark.deployment import Deployment
from tallymark_audit.alerts.about import fingerprints
from tallymark_audit.collector.counting.lateness import Lateness
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model import sketches
from tallymark_audit.model.alert import Alert
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import Rules, SeenRun
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.lateness import add_latencies
from tallymark_audit.store.judged import alerts
from tallymark_audit.store.judged.verdicts import COLLECTOR, accept, effective, record_verdicts
from tallymark_audit.store.reading.age import audit_age
from tallymark_audit.store.reading.heat import heat
from tallymark_audit.store.reading.incidents import (
    WhichIncidents,
    incident,
    incident_count,
    incident_page,
    incidents_of,
    windows_of,
)
from tallymark_audit.store.reading.latency import latency_of, latency_series
from tallymark_audit.store.reading.neighbours import first_bad, neighbours
from tallymark_audit.store.reading.pulse import pulse
from tallymark_audit.store.reading.series import buckets
from tallymark_audit.store.reading.sums import Sums, first_hops, hop_sums, once
from tallymark_audit.store.reading.timeline import timeline
from tallymark_audit.store.reading.worst import worst
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.balance import added_by
from tallymark_audit.store.schema.summed_tables import IN_STATE

W = 60_000
HOUR = 3_600_000
FIRST, SECOND = "producer-to-dc1", "dc1-to-agg"


def judged(
    edge: str, topic: str, window: int, state: State = State.COMPLETE, missing: int = 0
) -> Verdict:
    sums = {"claimed": 100, "observed": 100 - missing, "missing": missing}
    return Verdict(edge, topic, window * W, state, **sums)  # type: ignore[arg-type]  # all are int


def record(store: Store, some: list[Verdict], now: int = 10 * HOUR) -> None:
    with store.write() as connection:
        record_verdicts(connection, some, COLLECTOR, now)


def test_a_message_counts_once_on_its_way(database: str) -> None:
    """The sum over all hops was shown: 50,380 messages were "100,765 claimed"."""
    with open_store(database) as store:
        record(store, [judged(FIRST, "t", 0), judged(SECOND, "t", 0, State.LOSS, 4)])
        record(store, [judged(FIRST, "t", 200), judged(SECOND, "t", 200, State.SETTLING, 7)])
        with store.read() as connection:
            early, both = (pulse(connection, 0, end * W).sums for end in (200, 201))
            (topic,) = worst(connection, 0, 201 * W).rows
            (bucket,) = buckets(connection, None, "t", 0, HOUR, HOUR)
    assert (early.claimed, early.observed, early.missing, early.pending) == (100, 96, 4, 0)
    assert (both.claimed, both.observed, both.missing, both.pending) == (200, 189, 4, 7)
    assert topic.sums == both
    assert bucket.sums == early
    assert both.claimed == both.observed + both.pending + both.missing + both.explained


def test_the_first_hop_is_where_no_other_leads_to() -> None:
    assert first_hops(frozenset({FIRST, SECOND, "agg-to-lake"})) == {FIRST}
    assert first_hops(frozenset({SECOND, "agg-to-group:g", "agg-to-lake"})) == {SECOND}
    assert first_hops(frozenset({"producer-to-dc2", FIRST, SECOND})) == {"producer-to-dc2", FIRST}
    lost = Sums(claimed=10, missing=10)
    twice = once({FIRST: Sums(claimed=10, observed=10), SECOND: lost, "dc1-to-group:g": lost})
    assert twice.claimed == twice.missing == 20, "owed to two places, and in neither"


def random_store(store: Store, chance: Random) -> None:
    names = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
    found: dict[tuple[str, str, int], Verdict] = {}
    for _ in range(400):
        place = chance.choice([FIRST, SECOND]), chance.choice("abc"), chance.randrange(300) * W
        state = chance.choice([State.COMPLETE] * 6 + list(State))
        found[place] = Verdict(*place, state, **{name: chance.randrange(9) for name in names})  # type: ignore[arg-type]
    record(store, list(found.values()))


def brute(
    connection: Connection, start: int, end: int, bucket: int = 1 << 50
) -> dict[tuple[str, str, int], dict[str, int]]:
    """The sums by edge, topic and bucket, by looking at every verdict."""
    found: dict[tuple[str, str, int], dict[str, int]] = {}
    v = tables.verdicts.c
    query = select(tables.verdicts).where(v.window >= start, v.window < end, effective())
    for row in connection.execute(query).mappings():
        key = row["edge"], row["topic"], row["window"] - row["window"] % bucket
        known = found.setdefault(key, {})
        for name, number in added_by(row).items():
            known[name] = known.get(name, 0) + number
    return found


def test_sums_of_any_period_are_those_of_its_verdicts(database: str) -> None:
    chance = Random(5)
    with open_store(database) as store:
        random_store(store, chance)
        with store.read() as connection:
            for _ in range(20):
                start = chance.randrange(300) * W + chance.choice([0, 0, 1])
                end = start + chance.choice([W, 15 * W, HOUR, 4 * HOUR, 300 * W])
                whole = brute(connection, start, end)
                found = hop_sums(connection, "abc", start, end)
                assert {(e, t) for t, hops in found.items() for e in hops} == {
                    key[:2] for key in whole
                }
                for (edge, topic, _), known in whole.items():
                    sums = found[topic][edge]
                    assert {
                        name: getattr(sums, name) for name in ("claimed", "pending", "bad")
                    } == {name: known[name] for name in ("claimed", "pending", "bad")}
                bad = {topic for (_, topic, _), one in whole.items() if one["bad"]}
                assert worst(connection, start, end).bad == len(bad)


def test_cells_and_buckets_are_those_of_their_verdicts(database: str) -> None:
    chance = Random(6)
    with open_store(database) as store:
        random_store(store, chance)
        with store.read() as connection:
            for length in (W, 10 * W, 30 * W, HOUR, 2 * HOUR):
                start, end = 7 * W, 290 * W
                whole = brute(connection, start, end, length)
                cells = heat(connection, "abc", start, end, length)
                assert {(name, one.start) for name, some in cells.items() for one in some} == {
                    key[1:] for key in whole
                }
                for name, some in cells.items():
                    for one in some:
                        parts = [p for key, p in whole.items() if key[1:] == (name, one.start)]
                        bad = sum(part["bad"] for part in parts)
                        assert one.sums.bad == bad
                        for kind in ("missing", "duplicates", "unclaimed"):
                            assert getattr(one.sums, kind) == sum(part[kind] for part in parts)
                        states = {
                            str(state): sum(part[column] for part in parts)
                            for state, column in IN_STATE.items()
                        }
                        assert one.sums.states == {state: n for state, n in states.items() if n}
                        assert bool(one.edge) == bool(bad), "a bad cell leads to a window"
                        assert not bad or one.start <= one.window < one.start + length
                found = buckets(connection, FIRST, "a", start, end, length)
                assert {one.start: one.sums.claimed for one in found} == {
                    key[2]: part["claimed"]
                    for key, part in whole.items()
                    if key[:2] == (FIRST, "a")
                }


def test_the_worst_topics_come_first_and_pages_go_on(database: str) -> None:
    with open_store(database) as store:
        record(store, [judged(FIRST, f"t{number}", 0) for number in range(8)])
        record(
            store, [judged(SECOND, "t5", 0, State.LOSS, 3), judged(SECOND, "t2", 0, State.LOSS, 9)]
        )
        record(store, [judged(SECOND, "t7", 0, State.UNKNOWN), judged(SECOND, "T1", 1)])
        with store.read() as connection:
            first = worst(connection, 0, HOUR, 4)
            second = worst(connection, 0, HOUR, 4, skip=4)
            beyond = worst(connection, 0, HOUR, 4, skip=400)
            found = worst(connection, 0, HOUR, find="t1")
            by_edge = worst(connection, 0, HOUR, find="-TO-AGG")
            later = worst(connection, HOUR, 2 * HOUR)
    assert [one.topic for one in first.rows] == ["t2", "t5", "t7", "T1"]
    assert [one.topic for one in second.rows] == ["t0", "t1", "t3", "t4"]
    assert (first.topics, first.bad, beyond.topics, beyond.rows) == (9, 3, 9, ())
    assert {one.topic for one in found.rows} == {"t1", "T1"}
    assert {one.topic for one in by_edge.rows} == {"T1", "t2", "t5", "t7"}
    assert (later.bad, later.topics) == (0, 9), "a topic without messages is listed all the same"


def test_an_incident_is_found_after_its_repair_with_all_that_happened(database: str) -> None:
    """After a repair the overview showed 0 and 100 %, and no link led back to what was lost."""
    lost = [judged(SECOND, "t", at, State.LOSS, 3) for at in (5, 6)]
    with open_store(database) as store:
        record(store, [*lost, judged(SECOND, "t", 40, State.DUPLICATION)], now=HOUR)
        with store.write() as connection:
            connection.execute(
                tables.repairs.insert().values(
                    at=HOUR + 5, edge=SECOND, topic="t", window=6 * W, partition=0, server="web",
                    instance="i", sequences=[1, 3], copied=3, present=0, outcome="copied",
                )
            )  # fmt: skip
            connection.execute(
                tables.incidents.insert().values(
                    cluster="agg", topic="t", at=HOUR - 1, kind="truncated", reason="cut"
                )
            )
            labels = {"alertname": "TallymarkMissingMessages", "edge": SECOND, "topic": "t"}
            labels |= {"severity": "critical"}
            alerts.save(
                connection,
                [
                    Alert(
                        labels, {"summary": "6 missing"}, "firing", HOUR + 1, 0, "firing", HOUR + 2
                    )
                ],
            )
        record(store, [judged(SECOND, "t", at) for at in (5, 6)], now=HOUR + 10)
        with store.read() as connection:
            page = incident_page(connection, WhichIncidents(topic="t"))
            states = {one.kind: one.state for one in page}
            ended = next(one for one in page if one.kind == "LOSS")
            moments = timeline(connection, ended, fingerprints(SECOND, "t"))
            assert incident(connection, ended.id) == ended
            assert [one.window for one in windows_of(connection, ended.id)] == [5 * W, 6 * W]
            assert incidents_of(connection, SECOND, "t", 6 * W) == [ended]
            assert incident_count(connection, WhichIncidents(states=["OPEN"], find="T")) == 1
            day_after = WhichIncidents(start=2 * HOUR, end=3 * HOUR)
            assert [one.kind for one in incident_page(connection, day_after)] == ["DUPLICATION"]
            around = neighbours(connection, SECOND, "t", 6 * W)
            bad = first_bad(connection, 0, HOUR)
    assert states == {"LOSS": "REPAIRED", "DUPLICATION": "OPEN"}
    assert (ended.repaired_by, ended.missing, ended.worst_missing) == ("repair 1", 0, 6)
    assert {"log", "alert", "told", "repair", "verdict"} == {one.kind for one in moments}
    assert (around.previous, around.following) == (5 * W, 40 * W)
    assert (around.first_bad, around.next_bad, around.previous_healed) == (40 * W, 40 * W, 5 * W)
    assert bad == (SECOND, "t", 40 * W)


def test_an_alert_is_on_the_time_line_however_many_others_came_after_it(database: str) -> None:
    """Of all alerts since the incident began the newest 2,000 were looked at, so that in a storm of
    other alerts the line of an incident no longer said that an alert of it had been sent."""
    labels = {"alertname": "TallymarkMissingMessages", "edge": SECOND, "severity": "critical"}
    own = Alert({**labels, "topic": "t"}, {}, "firing", HOUR + 1, 0, "firing", HOUR + 2)
    storm = [
        Alert({**labels, "topic": f"t{n}"}, {}, "firing", HOUR + 3, 0, "firing", HOUR + 3)
        for n in range(2_100)
    ]
    with open_store(database) as store:
        record(store, [judged(SECOND, "t", 5, State.LOSS, 3)], now=HOUR)
        with store.write() as connection:
            alerts.save(connection, [own, *storm])
        with store.read() as connection:
            (one,) = incident_page(connection, WhichIncidents(topic="t"))
            moments = timeline(connection, one, fingerprints(SECOND, "t"))
    assert [m.at for m in moments if m.kind in ("alert", "told")] == [HOUR + 1, HOUR + 2]


def test_an_accepted_loss_is_not_bad_any_more_and_stays_counted(database: str) -> None:
    with open_store(database) as store:
        record(store, [judged(SECOND, "t", 5, State.LOSS, 3)])
        with store.write() as connection:
            accept(connection, SECOND, "t", 5 * W, "ann", "known", 11 * HOUR)
        with store.read() as connection:
            found = pulse(connection, 0, HOUR).sums
            (one,) = incident_page(connection, WhichIncidents())
    assert (found.bad, found.accepted, found.missing) == (0, 1, 3)
    assert (one.state, one.missing) == ("ACCEPTED", 3)


def test_absence_is_never_well(database: str, tmp_path: Path) -> None:
    """With every collector stopped for 15 windows the overview stayed as it was."""
    settings, now = Deployment(data_dir=tmp_path), 20 * HOUR
    names = [one.name for one in settings.clusters]
    other = names[-1]
    place = {"topic": "t", "next_offset": 1, "high_watermark": 1}
    t = tables
    with open_store(database) as store, store.write() as connection:
        for name in names:
            row = {"cluster": name, "owner": f"on-{name}", "heartbeat": now}
            connection.execute(t.collectors.insert().values(**row))
            for partition in range(2):
                here = {**place, "cluster": name, "partition": partition}
                connection.execute(t.progress.insert().values(**here, counted_through=now))
        assert audit_age(connection, settings, now).ok
        assert audit_age(connection, settings, now + 2 * W).ok
        late = audit_age(connection, settings, now + 15 * W)
        assert {(one.cluster, one.why, one.collector) for one in late.behind} == {
            (name, "silent", f"on-{name}") for name in names
        }
        assert (late.judged_through_ms, late.behind[0].last_commit_ms) == (now, now)
        # One partition is not counted, though its collector is well.
        one = (t.progress.c.cluster == other) & (t.progress.c.partition == 1)
        connection.execute(update(t.progress).where(one).values(counted_through=now - 9 * W))
        (stuck,) = audit_age(connection, settings, now).behind
        assert (stuck.why, stuck.partitions) == ("behind", 1)
        assert stuck.counted_through_ms == now - 9 * W
        # A collector that stopped in order leaves no heartbeat, and is silent all the same.
        connection.execute(update(t.collectors).values(heartbeat=0))
        found = audit_age(connection, settings, now + 15 * W)
    assert {one.why for one in found.behind} == {"silent"}


def test_latencies_are_kept_by_time_and_merged(database: str) -> None:
    """Percentiles of hours and days come from all records, not from percentiles of their parts."""
    seen: list[tuple[int, int]] = [(HOUR, 100), (HOUR + 20 * W, 100), (HOUR + 21 * W, 900)]
    with open_store(database) as store:
        for at, late in seen:
            found = Lateness()
            key = CellKey("t", 0, at, "web", "ab" * 8)
            sketch = {sketches.bucket_of(late): 10}
            run = SeenRun(key, 0, 9, min_timestamp=at, max_timestamp=at, latency=sketch)
            rules = Rules(W, at, seen_at=at)
            found.add([run], "t", rules)
            found.add([replace(run, aborted=True)], "t", rules)
            with store.write() as connection:
                add_latencies(connection, "dc1", found.lately)
        with store.read() as connection:
            whole = latency_of(connection, ["dc1", "dc2"], None, 0, 9 * HOUR)
            topic = latency_of(connection, ["dc1"], "t", 0, 9 * HOUR)
            parts = latency_series(connection, ["dc1"], None, 0, 9 * HOUR, 10 * W)
    assert whole.keys() == {"dc1"}
    assert (whole["dc1"].count, topic["dc1"].count) == (30, 30)
    assert [(one.start, one.count) for one in parts] == [(HOUR, 10), (HOUR + 20 * W, 20)]
    assert abs(whole["dc1"].p50 - 100) < 3
    assert abs(whole["dc1"].p99 - 900) < 20
