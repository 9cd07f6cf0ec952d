"""Whatever lies in a cluster's logs is counted under its reason and reported; nothing crashes, and
nobody makes the collector keep more than it should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counting_paths import counting_path as counting_path
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.counting.monitoring import MOST_REASONS
from tallymark_audit.collector.ledger import CountedFetch, Ledger
from tallymark_audit.collector.limits.window_bound import MOST_WINDOWS, overflow_window
from tallymark_audit.collector.partitions.known_places import KnownPlaces
from tallymark_audit.events.event_codec import decode_event, encode_event
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.hashing import fingerprint
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation, merge_observations
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.incidents import MOST_A_DAY, OTHERS
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema.rows import Row, observation_from_row
from tallymark_audit.store.schema.tables import claims, lateness, observations
from tallymark_audit.testing import MemoryCluster, Told, stamped
from tallymark_audit.testing.clusters import MemoryTopic

W = 1000
DAY = 86_400_000
A = b"instance"
START = 20_000 * DAY


class Bench:
    def __init__(self, store: Store, **given: Any) -> None:
        self.store = store
        self.cluster = MemoryCluster(at_once=50)
        self.cluster.log()  # the topic that the events speak of
        self.now = START
        made = CollectorSettings("dc1", W, max_wait_ms=0, **given)
        self.collector = Collector(store, self.cluster, made, "x", self.tick)
        self.collector.start()

    def tick(self) -> int:
        self.now += 400
        return self.now

    def drain(self, rounds: int = 6) -> dict[CellKey, Observation]:
        for _ in range(rounds):
            self.collector.step()
        with self.store.read() as connection:
            rows = connection.execute(select(observations)).mappings().all()
        return merge_observations(observation_from_row(row) for row in rows)

    def incidents(self) -> list[Row]:
        with self.store.read() as connection:
            return queries.all_incidents(connection)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as opened:
        yield opened


def test_malformed_stamps_are_counted_and_reported_by_reason(store: Store) -> None:
    bench = Bench(store)
    good = encode_stamp(Stamp(A, 0, 5, "web"))
    junk = [
        b"",
        b"\x02" + good[1:],
        good[:10],
        good + b"w" * 1_000_000,
        good + b"\0",
        good + b"\xff",
    ]
    for _ in range(3):
        bench.cluster.log().append([Told(raw, START) for raw in junk] + [Told(good, START)])
    cells = bench.drain()
    (bare,) = [seen for key, seen in cells.items() if not key.stamped]
    assert (bare.count, bare.malformed) == (18, 18)
    assert cells[CellKey("t", 0, START, "web", A.hex())].count == 3
    found = bench.incidents()
    assert {row["kind"] for row in found} == {"malformed-stamp"}
    assert sorted(row["count"] for row in found) == [3] * 6
    assert bench.collector.counters.malformed == 18


def test_of_several_stamps_the_last_counts(store: Store) -> None:
    bench = Bench(store)
    headers = [("tm", b"junk"), ("other", None), ("tm", encode_stamp(Stamp(A, 0, 5, "web")))]
    bench.cluster.log().append_records([(None, b"v", headers, START)] * 2)
    (key,) = bench.drain()
    assert key.server == "web"


def test_absurd_timestamps_are_counted_where_they_say_as_skewed(store: Store) -> None:
    bench = Bench(store)
    year_30000 = 884_541_340_800_000
    stamps = [-1, -(2**40), 0, START, year_30000, 2**63 - 1]
    for number, at in enumerate(stamps):
        bench.cluster.log().append([Told(Stamp(A, 0, number, "web"), at)])
    cells = {key.window: seen for key, seen in bench.drain().items()}
    assert {window: (seen.count, seen.skewed) for window, seen in cells.items()} == {
        -W: (2, 0),
        0: (1, 0),
        START: (1, 0),
        year_30000: (1, 1),
        (2**63 - 1) // W * W: (1, 1),
    }
    assert not bench.incidents()


def test_timestamps_beyond_64_bits_are_what_java_makes_of_them(store: Store) -> None:
    """A batch's base and a record's delta add up to more than a column holds: the store refused
    the window with an error that nobody expected, and the collector ended."""
    bench = Bench(store)
    data = bytearray(encode_batch([(None, b"v", (), 2**63 - 10), (None, b"v", (), 2**63 - 1)]))
    data[27:35] = (2**63 - 1).to_bytes(8, "big")  # the base
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    bench.cluster.log("t").batches += split_batches(bytes(data))
    cells = {key.window: seen.count for key, seen in bench.drain().items()}
    assert cells == {(2**63 - 1) // W * W: 1, -W: 1}
    assert bench.collector.counters.failures == 0


def test_old_records_are_skewed_when_they_come_live_unless_they_are_a_backfill(
    store: Store,
) -> None:
    """A log that is read from long ago is no sign of a wrong clock; one that gets old records now
    is, unless their producer says that it fills in old data."""
    bench = Bench(store)
    old = START - 5 * DAY
    bench.cluster.log().append(stamped(0, 5, old))
    bench.drain()
    bench.cluster.log().append(stamped(5, 5, old))
    filler = b"backfill"
    told = replace(
        an_event(), backfill=True, instance=filler.hex(), reporter=f"producer-{filler.hex()}"
    )
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, 0, encode_event(told))])
    bench.drain(40)
    bench.cluster.log().append(stamped(0, 5, old, instance=filler))
    cells = bench.drain()
    assert cells[CellKey("t", 0, old, "web", A.hex())].skewed == 5
    assert cells[CellKey("t", 0, old, "web", filler.hex())].skewed == 0


def test_random_timestamps_do_not_open_a_window_each(store: Store) -> None:
    bench = Bench(store)
    far = START + 2 * DAY
    for batch in range(4):
        first = batch * 100
        told = [Told(Stamp(A, 0, first + n, "web"), far + (first + n) * W) for n in range(100)]
        bench.cluster.log().append(told)
    bench.cluster.log().append(stamped(400, 10, START))
    cells = bench.drain()
    assert len(cells) == MOST_WINDOWS + 2
    beyond = cells[CellKey("t", 0, overflow_window(W), "web", A.hex())]
    assert (str(beyond.ranges), beyond.skewed) == ("100-399", 300)
    assert cells[CellKey("t", 0, START, "web", A.hex())].count == 10
    (incident,) = bench.incidents()
    assert (incident["kind"], incident["count"]) == ("too-many-windows", 300)


def test_a_cell_with_too_many_ranges_is_counted_and_hashed(store: Store) -> None:
    bench = Bench(store, max_ranges=50)
    even = [Told(Stamp(A, 0, 2 * n, "web"), START) for n in range(60)]
    bench.cluster.log().append(even)
    (seen,) = bench.drain().values()
    assert (seen.count, seen.ranges.size) == (60, 0)
    assert seen.fingerprint == fingerprint(RangeSet.of(2 * n for n in range(60)))
    bench.cluster.log().append([Told(Stamp(A, 0, 2 * n, "web"), START) for n in range(60, 70)])
    (seen,) = bench.drain().values()
    assert (seen.count, seen.duplicate_count) == (70, 0)
    assert seen.fingerprint == fingerprint(RangeSet.of(2 * n for n in range(70)))


def test_the_content_check_does_not_depend_on_batches(store: Store) -> None:
    bench = Bench(store, content_check=True)
    bench.cluster.log("t", 0).append(stamped(1000, 60, START))
    bench.cluster.log("u", 0).append(stamped(1000, 3, START))
    bench.cluster.log("u", 0).append(stamped(1003, 57, START))
    cells = bench.drain()
    one, two = (cells[CellKey(topic, 0, START, "web", A.hex())].blocks for topic in "tu")
    assert one == two
    assert [(block.block, block.records) for block in one] == [(0, 24), (1, 36)]


def test_lateness_is_of_what_was_read_as_it_came(store: Store) -> None:
    bench = Bench(store)
    bench.cluster.log().append(stamped(0, 50, START - 500_000))  # was there before
    bench.drain()
    bench.cluster.log().append(stamped(50, 10, bench.now - 60_000))
    bench.cluster.log().append(stamped(60, 10, bench.now + 3_600_000))  # a clock that is ahead
    bench.drain(30)
    with store.read() as connection:
        (row,) = connection.execute(select(lateness)).mappings()
    assert (row["edge"], row["topic"], row["day"]) == ("dc1", "t", START)
    sketch = sketches.from_list(row["sketch"])
    assert sum(sketch.values()) == 10
    found = sketches.quantile(sketch, 0.999)
    assert found is not None
    assert 55_000 < found < 70_000


def an_event(number: int = 0) -> AuditEvent:
    return AuditEvent(
        kind="producer",
        reporter=f"producer-{'aa' * 8}",
        server="web",
        application="app",
        instance="aa" * 8,
        event_number=number,
        covers_from=0,
        emitted_at=START,
        window_ms=W,
        complete_through=4,
        cells=(CellReport("t", 0, 0, accepted=RangeSet.single(0, 4)),),
    )


def claims_of(store: Store) -> list[list[int]]:
    with store.read() as connection:
        found = window_evidence.evidence(connection, "producer-to-dc1", "t", 0)
    return [row["accepted"] for row in found.upstream]


def test_bad_events_are_reported_by_reason_and_harm_nothing(store: Store) -> None:
    bench = Bench(store)
    good = encode_event(an_event())
    other_window = encode_event(replace(an_event(), window_ms=5 * W))
    future = good[:2] + b"\xee" * 8 + good[10:]
    bad = [b"", b"junk", future, good[:-3], good + b"x", other_window]
    for _ in range(4):
        bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, value) for value in [*bad, good]])
    bench.drain()
    found = bench.incidents()
    assert {row["kind"] for row in found} == {"bad-event"}
    assert sum(row["count"] for row in found) == 4 * len(bad)
    assert len(found) <= len(bad)
    reasons = " | ".join(row["reason"] for row in found)
    for part in ("another version", "not an audit event", "damaged", "windows of 5000 ms"):
        assert part in reasons
    assert claims_of(store) == [[0, 4]]
    counters = bench.collector.counters
    assert (counters.events, counters.bad_events) == (4, 4 * len(bad))


def test_lower_revisions_and_repeated_events_change_nothing(store: Store) -> None:
    bench = Bench(store)
    cell = CellReport("t", 0, 0, revision=5, accepted=RangeSet.single(0, 9))
    newer = replace(an_event(1), cells=(cell,))
    log = bench.cluster.log(AUDIT_TOPIC)
    log.append(
        [Told(None, START, encode_event(newer)), Told(None, START, encode_event(an_event()))]
    )
    bench.drain()
    log.append(
        [Told(None, START, encode_event(an_event())), Told(None, START, encode_event(newer))]
    )
    bench.drain()
    assert claims_of(store) == [[0, 9]]
    assert not bench.incidents()


def test_absurd_events_are_refused_and_do_not_hold_up_the_others(store: Store) -> None:
    """Who claims 2^63 records keeps whoever hashes them busy for ever."""
    bench = Bench(store)
    many = CellReport("t", 0, 0, accepted=RangeSet.single(0, 2**63 - 1))
    below = CellReport("t", 0, 0, failed=RangeSet.single(-5, 3))
    bad = [replace(an_event(), cells=(cell,)) for cell in (many, below)]
    told = [Told(None, 0, encode_event(event)) for event in [*bad, an_event()]]
    bench.cluster.log(AUDIT_TOPIC).append(told)
    bench.drain()
    counters = bench.collector.counters
    assert (counters.failures, counters.bad_events, counters.events) == (0, 2, 1)
    assert claims_of(store) == [[0, 4]]
    assert {row["kind"] for row in bench.incidents()} == {"bad-event"}


def test_an_event_of_very_many_cells_is_taken(store: Store) -> None:
    bench = Bench(store)
    bench.cluster.log(partition=1)
    cells = tuple(CellReport("t", 1, n * W, accepted=RangeSet.single(0, 1)) for n in range(5000))
    told = replace(an_event(), cells=cells)
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, 0, encode_event(told))])
    bench.cluster.log().append(stamped(0, 3, START))
    counted = bench.drain()
    assert [seen.count for seen in counted.values()] == [3]
    assert claims_of(store) == [[0, 1]]


def test_a_reporter_whose_clock_is_ahead_is_believed_but_for_the_time(store: Store) -> None:
    bench = Bench(store)
    told = replace(an_event(), emitted_at=2**62)
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, 0, encode_event(told))] * 3)
    bench.drain()
    (incident,) = bench.incidents()
    assert (incident["kind"], incident["count"]) == ("clock-off", 3)
    assert claims_of(store) == [[0, 4]]
    with store.read() as connection:
        (reporter,) = queries.all_reporters(connection)
    assert reporter["last_heard"] <= bench.now + DAY


def test_who_floods_the_audit_topic_does_not_flood_the_store(store: Store) -> None:
    bench = Bench(store)
    good = encode_event(an_event())
    told = [good[:2] + n.to_bytes(8, "big") + good[10:] for n in range(2 * MOST_A_DAY)]
    for start in range(0, len(told), MOST_REASONS):
        some = told[start : start + MOST_REASONS]
        bench.cluster.log(AUDIT_TOPIC).append([Told(None, 0, value) for value in some])
        bench.drain()
    found = bench.incidents()
    assert len(found) == MOST_A_DAY + 1
    (others,) = [row for row in found if row["reason"] == OTHERS]
    assert others["count"] == MOST_A_DAY


headers = st.lists(st.tuples(st.sampled_from(["tm", "x", ""]), st.none() | st.binary(max_size=30)))


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(headers, st.sampled_from([-(2**62), -1, 0, START, 2**62]), st.binary(max_size=9)),
        max_size=20,
    ),
    st.lists(st.binary(max_size=60), max_size=5),
)
def test_anything_may_lie_in_the_logs(
    store: Store, script: list[tuple[Any, int, bytes]], events: list[bytes]
) -> None:
    bench = Bench(store)
    topic = f"t{id(script)}"
    for given_headers, timestamp, value in script:
        bench.cluster.log(topic).append_records([(value, value, given_headers, timestamp)])
    bench.cluster.log(AUDIT_TOPIC)
    for value in events:
        bench.cluster.log(AUDIT_TOPIC).append([Told(None, 0, value)])
    for _ in range(8):
        bench.collector.step()
    counters = bench.collector.counters
    assert (counters.failures, counters.lag) == (0, 0)


def test_claims_of_topics_that_never_were_are_incidents_and_no_cells(store: Store) -> None:
    """An event with a changed topic name made a cell of a topic that does not exist: all of it was
    LOSS, for ever, and the watermark of that topic stood still."""
    bench = Bench(store)
    cells = tuple(CellReport(topic, part, 0) for topic, part in [("t", 0), ("u", 0), ("t", 7)])
    told = replace(an_event(), cells=cells)
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, encode_event(told))])
    bench.drain()
    with store.read() as connection:
        kept = {(row.topic, row.partition) for row in connection.execute(select(claims))}
        (reporter,) = queries.all_reporters(connection)
    assert kept == {("t", 0)}
    assert reporter["covered"] == 0, "its checksum holds, so the rest of it is believed"
    found = bench.incidents()
    assert {row["kind"] for row in found} == {"unknown-topic"}
    reasons = " | ".join(row["reason"] for row in found)
    assert "claims records of u-0, which is not known here" in reasons
    assert "claims records of t-7, which is not known here" in reasons


def test_a_topic_that_lived_shortly_does_not_cost_the_claims_of_others(store: Store) -> None:
    """A test made a topic, sent to it and deleted it before the collector saw it. An older
    producer's event named it beside a healthy topic, and was refused with all its claims."""
    bench = Bench(store)
    told = replace(an_event(), cells=(CellReport("t", 0, 0), CellReport("u", 0, 0)))
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, as_version_3(told))])
    bench.drain()
    with store.read() as connection:
        assert [row.topic for row in connection.execute(select(claims))] == ["t"]
    (incident,) = bench.incidents()
    assert incident["kind"] == "unknown-topic"
    assert "deleted before it was counted, or it never was" in incident["reason"]


def test_a_flood_of_unknown_claims_does_not_list_all_topics_each_time() -> None:
    """Each fetch of the audit topic with a claim of an unknown topic listed the whole cluster."""
    lists: list[int] = []
    now = 0

    class Counting(MemoryCluster):
        def topics(self) -> Mapping[str, MemoryTopic]:
            lists.append(now)
            return MemoryCluster.topics(self)

    cluster = Counting()
    places = KnownPlaces(cluster, set, lambda: now)
    for at in (0, 400, 999, 1000, 1500):
        now = at
        assert places.unknown({("u", 0)}) == {("u", 0)}
    assert lists == [0, 1000]
    cluster.log("u")
    now = 2000
    assert not places.unknown({("u", 0)})


def test_a_partition_that_cannot_be_committed_is_logged_once_and_tried_less_often(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of one cell in the store made no sense, so its partition could not be committed. It
    was read well, which ended the trouble: each round logged that it began and that it was over."""
    bench = Bench(store)
    bench.cluster.log("t", 1).append(stamped(0, 5, START, partition=1))
    commit, tries = Ledger.commit, list[int]()
    broken = True

    def refusing(ledger: Ledger, found: Sequence[CountedFetch], now: int) -> None:
        if broken and any(one.place == ("t", 1) for one in found):
            tries.append(now)
            raise ValueError("no such number")
        commit(ledger, found, now)

    monkeypatch.setattr(Ledger, "commit", refusing)
    with caplog.at_level("INFO"):
        bench.drain(40)
    said = [one for one in caplog.messages if "t-1" in one or "well again" in one]
    assert len(said) == 1, said
    assert len(tries) < 30
    broken = False
    cells = bench.drain(60)
    assert sum(seen.count for key, seen in cells.items() if key.partition == 1) == 5


def test_an_event_without_a_checksum_of_unknown_topics_only_is_not_taken(store: Store) -> None:
    bench = Bench(store)
    told = replace(an_event(), cells=(CellReport("v", 0, 0), CellReport("u", 0, 0)))
    value = as_version_3(told)
    assert not decode_event(value).checked
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, value)])
    bench.drain()
    with store.read() as connection:
        assert not connection.execute(select(claims)).all()
        assert not queries.all_reporters(connection)
    assert {row["kind"] for row in bench.incidents()} == {"bad-event"}


def test_a_topic_younger_than_the_last_look_is_asked_for(store: Store) -> None:
    """The claim may come before the collector has heard of the topic."""
    bench = Bench(store)
    bench.drain()
    told = replace(an_event(), cells=(CellReport("young", 0, 0),))
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, encode_event(told))])
    bench.cluster.log("young")
    bench.collector.step()
    bench.drain()
    assert not bench.incidents()


def test_claims_of_a_topic_that_was_deleted_are_kept(store: Store) -> None:
    """Its messages were sent, and a lost topic is a loss."""
    bench = Bench(store)
    bench.cluster.log("short-lived")
    bench.cluster.log(AUDIT_TOPIC)
    bench.drain()
    del bench.cluster.logs["short-lived", 0]
    told = replace(an_event(), cells=(CellReport("short-lived", 0, 0),))
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, encode_event(told))])
    bench.drain()
    with store.read() as connection:
        assert [row.topic for row in connection.execute(select(claims))] == ["short-lived"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cells": (CellReport("t", 0, 17),)}, "a window that begins at 17, which is no multiple"),
        ({"reporter": "producer-x"}, "its instance is 'aaaaaaaaaaaaaaaa'"),
        ({"instance": ""}, "its instance is ''"),
        ({"kind": "mirror"}, "a 'mirror' that counts in the tier 'producer'"),
        ({"kind": "mirror", "tier": "mirror"}, "a mirror reports no cells"),
        ({"kind": "clock", "tier": "clock"}, "a 'clock' that counts"),
    ],
)
def test_what_cannot_be_true_is_an_incident(
    store: Store, change: dict[str, Any], said: str
) -> None:
    """Windows that were no multiple of ``window_ms``, and reporters that had never run, stood in
    the tables of the store."""
    bench = Bench(store)
    told = replace(an_event(), **change)
    bench.cluster.log(AUDIT_TOPIC).append([Told(None, START, encode_event(told))])
    bench.drain()
    (incident,) = bench.incidents()
    assert incident["kind"] == "bad-event"
    assert said in incident["reason"]
    with store.read() as connection:
        assert not connection.execute(select(claims)).all()
        assert not queries.all_reporters(connection)


def as_version_3(event: AuditEvent) -> bytes:
    """As it was written before events had a checksum."""
    value = encode_event(event)
    datum = bytes([2 * 3]) + value[11:-4]
    return value[:2] + bytes.fromhex("f82427ca78b4e28d") + datum
