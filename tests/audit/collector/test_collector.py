"""The collector counts every record exactly once: over restarts, failing stores, zombies, cut logs.

The cluster is a list of batches in memory; the store is a real SQLite file. What should be there
is counted once more, plainly, from the log as it is.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest
from counting_paths import counting_path as counting_path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.records.batch import split_batches
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.counting.cells import count
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, CellReport, Gap
from tallymark_audit.model.cells import CellKey, window_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.record_runs import Rules, runs_in
from tallymark_audit.model.sides import Observation, merge_observations
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.positions import FencedError
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema.rows import observation_from_row
from tallymark_audit.store.schema.tables import observations
from tallymark_audit.testing import MemoryCluster, Told, stamped

W = 1000
A, B = b"instance", b"another!"
NOBODY = CellKey("t", 0, 0, "", "")


@dataclass
class Bench:
    """A cluster, a store, and a clock that moves a second a round."""

    cluster: MemoryCluster
    store: Store
    now: int = 1_000_000

    def tick(self) -> int:
        self.now += 1000
        return self.now

    def collector(self, owner: str = "one") -> Collector:
        made = Collector(
            self.store,
            self.cluster,
            CollectorSettings("dc1", W, max_wait_ms=0),
            owner,
            clock=self.tick,
        )
        made.start()
        return made

    def counted(self) -> dict[CellKey, Observation]:
        with self.store.read() as connection:
            rows = connection.execute(select(observations)).mappings().all()
        return merge_observations(observation_from_row(row) for row in rows)

    def plainly(self) -> dict[CellKey, tuple[int, RangeSet]]:
        """The oracle: every record of every log, one at a time, into plain lists."""
        cells: dict[CellKey, list[int]] = {}
        for (topic, partition), log in self.cluster.logs.items():
            if topic == AUDIT_TOPIC:
                continue
            for one in log.batches:
                for record in one.records():
                    key = CellKey(topic, partition, window_of(record.timestamp, W), "", "")
                    sequence = -1
                    if record.headers:
                        raw = record.headers[0][1] or b""
                        if len(raw) > 11 and raw[0] == 1:
                            size = next(n for n in range(1, 9) if raw[10 : 10 + n][-1] < 128)
                            sequence = sum(
                                (byte & 127) << 7 * at
                                for at, byte in enumerate(raw[10 : 10 + size])
                            )
                            name = raw[10 + size :].decode()
                            key = CellKey(topic, raw[9], key.window, name, raw[1:9].hex())
                    cells.setdefault(key, []).append(sequence)
        return {
            key: (len(found), RangeSet.of(n for n in found if n >= 0))
            for key, found in cells.items()
        }

    def agrees(self) -> bool:
        found = {key: (seen.count, seen.ranges) for key, seen in self.counted().items()}
        return found == self.plainly()

    def drain(self, collector: Collector, rounds: int = 60) -> None:
        for _ in range(rounds):
            collector.step()
            if all(
                at.next_offset == self.cluster.log(at.topic, at.partition).end
                for at in collector.ledger.positions.values()
            ):
                collector.step()
                return


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bench_in(tmp_path) as made:
        yield made


@contextmanager
def bench_in(folder: Path) -> Iterator[Bench]:
    with open_store(f"sqlite:///{folder / f'{uuid.uuid4()}.db'}") as store:
        yield Bench(MemoryCluster(), store)


def refuse(*_: object) -> NoReturn:
    """What a store does without room."""
    raise OperationalError("COMMIT", {}, Exception("database or disk is full"))


def test_counts_every_kind_of_record(bench: Bench) -> None:
    log = bench.cluster.log()
    log.append(stamped(0, 5) + stamped(5, 5, timestamp=W))
    log.append(stamped(0, 3, instance=B) + stamped(7, 2))
    log.append([Told(None, 5), Told(b"\x01bad", 6), Told(None, -1)])
    log.append([Told(encode_stamp(Stamp(A, 0, 9, "we\0b")), 0), Told(Stamp(A, 0, 11, "web"), 0)])
    bench.cluster.log("u", 3).append(stamped(0, 2))
    bench.drain(bench.collector())
    assert {key: (s.count, s.ranges) for key, s in bench.counted().items() if key.stamped} == {
        key: found for key, found in bench.plainly().items() if "\0" not in key.server and key[4]
    }
    cells = bench.counted()
    bare = cells[NOBODY]
    assert (bare.count, bare.malformed) == (3, 2)
    assert cells[NOBODY._replace(window=-W)].count == 1
    own = cells[CellKey("t", 0, 0, "web", A.hex())]
    assert (str(own.ranges), own.duplicate_count) == ("0-4, 7-8, 11", 0)
    assert (own.first_offset, own.last_offset) == (0, 19)
    assert cells[CellKey("u", 0, 0, "web", A.hex())].count == 2


def test_names_the_copies(bench: Bench) -> None:
    log = bench.cluster.log()
    log.append(stamped(0, 10))
    log.append(stamped(3, 4))
    log.append(stamped(3, 1))
    collector = bench.collector()
    bench.drain(collector)
    (seen,) = bench.counted().values()
    assert (seen.count, seen.duplicate_count, str(seen.ranges)) == (15, 5, "0-9")
    assert [(copy.offset, copy.sequence) for copy in seen.copies] == [
        (10, 3),
        (11, 4),
        (12, 5),
        (13, 6),
        (14, 3),
    ]


def test_future_timestamps_are_skewed_and_counted_where_they_say(bench: Bench) -> None:
    far = 10**15
    bench.cluster.log().append([*stamped(0, 1, far), *stamped(1, 1, 2**63 - 1), *stamped(2, 1)])
    bench.drain(bench.collector())
    cells = {key.window: seen for key, seen in bench.counted().items()}
    assert {window: seen.skewed for window, seen in cells.items()} == {
        far: 1,
        window_of(2**63 - 1, W): 1,
        0: 0,
    }


def test_topics_that_are_not_audited_are_left_out(bench: Bench) -> None:
    bench.cluster.log("_internal").append(stamped(0, 3))
    bench.cluster.log("kept").append(stamped(0, 3))
    collector = Collector(
        bench.store, bench.cluster, CollectorSettings("dc1", W, topics="kep."), "x", bench.tick
    )
    collector.start()
    bench.drain(collector)
    assert {key.topic for key in bench.counted()} == {"kept"}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6), st.integers(0, 2)),
        st.tuples(st.just("again"), st.integers(1, 4)),
        st.tuples(st.just("step")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("zombie")),
        st.tuples(st.just("full")),
        st.tuples(st.just("cut"), st.integers(1, 3)),
        st.tuples(st.just("away")),
    ),
    max_size=30,
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=steps, chance=st.randoms(use_true_random=False))
def test_counts_exactly_once_whatever_happens(
    tmp_path: Path, script: list[tuple[Any, ...]], chance: Random
) -> None:
    """Restarts, two collectors at once, stores that fail at the commit, brokers that are away, and
    logs that lose their tail: in the end the counts are those of the log as it is."""
    with bench_in(tmp_path) as bench:
        log, sequence = bench.cluster.log(), 0
        collectors = [bench.collector()]
        for name, *arguments in script:
            if name == "append":
                log.append(stamped(sequence, arguments[0], arguments[1] * W))
                sequence += arguments[0]
            elif name == "again" and sequence:
                log.append(stamped(chance.randrange(sequence), arguments[0]))
            elif name == "restart":
                collectors = [bench.collector()]
            elif name == "zombie":
                collectors.append(bench.collector(f"number {len(collectors)}"))
            elif name == "cut":
                log.cut(max(0, len(log.batches) - arguments[0]))
            else:
                bench.cluster.away = name == "away"
                with failing_commits(bench.store, name == "full"):
                    for collector in collectors:
                        step_or_end(collector, collectors)
                bench.cluster.away = False
        final = bench.collector()
        bench.drain(final)
        assert bench.agrees()
        for other in collectors:
            assert is_fenced(other)


def is_fenced(collector: Collector) -> bool:
    try:
        for _ in range(3):
            collector.step()
    except FencedError:
        return True
    return False


def step_or_end(collector: Collector, collectors: list[Collector]) -> None:
    try:
        collector.step()
    except FencedError:
        collectors.remove(collector)


@contextmanager
def failing_commits(store: Store, fail: bool) -> Iterator[None]:
    """Every transaction is rolled back at its end, as a full disk makes it."""
    if not fail:
        yield
        return
    real = store.write

    @contextmanager
    def write() -> Iterator[Any]:
        with real() as connection:
            yield connection
            raise OperationalError("COMMIT", {}, Exception("database or disk is full"))

    store.write = write  # type: ignore[method-assign]  # the one method that commits
    try:
        yield
    finally:
        del store.write


def test_what_the_store_does_not_take_is_behind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the store was full for 20 s, and the line of that minute said "0 behind": all was
    read, and none of it committed."""
    log = bench.cluster.log()
    log.append(stamped(0, 5))
    collector = bench.collector()
    bench.drain(collector)
    assert "5 records of 1 partition, 0 behind; " in collector.counters.status()
    log.append(stamped(5, 3))
    log.append(stamped(8, 4))
    with monkeypatch.context() as full:
        full.setattr(Ledger, "commit", refuse)
        for _ in range(3):
            collector.step()
            told = "5 records of 1 partition, 7 behind or more (the store refuses); "
            assert told in collector.counters.status()
        full.setattr(bench.store, "read", refuse)
        collector.step()
        assert told in collector.counters.status()
    bench.drain(collector)
    assert "12 records of 1 partition, 0 behind; " in collector.counters.status()
    assert bench.agrees()


def test_a_partition_that_cannot_be_counted_is_behind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.cluster.log().append(stamped(0, 5))
    collector = bench.collector()

    def absurd(*_: object) -> NoReturn:
        raise ValueError("a number that cannot be")

    with monkeypatch.context() as odd:
        odd.setattr(Ledger, "save_runs", absurd)
        for _ in range(3):
            collector.step()
            assert "0 records of 1 partition, 5 behind; " in collector.counters.status()
    bench.drain(collector)
    assert "5 records of 1 partition, 0 behind; " in collector.counters.status()


def test_a_zombie_stops_and_says_who_has_taken_over(bench: Bench) -> None:
    bench.cluster.log().append(stamped(0, 5))
    old = bench.collector("host-1:11")
    old.step()
    bench.collector("host-2:22")
    bench.cluster.log().append(stamped(5, 5))
    with pytest.raises(FencedError, match="now host-2:22"):
        old.step()


def test_a_cut_log_is_counted_again_and_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker came back without its last batches, and others were written in their place: the
    cells are those of the log that is there, and the cut stands among the incidents."""
    log = bench.cluster.log()
    for number in range(6):
        log.append(stamped(number * 10, 10, timestamp=number // 3 * W))
    collector = bench.collector()
    bench.drain(collector)
    untouched = bench.counted()[CellKey("t", 0, 0, "web", A.hex())]
    log.cut(4)
    log.append(stamped(50, 5, timestamp=W))
    log.append(stamped(60, 20, timestamp=5 * W))
    bench.drain(collector)
    assert bench.agrees()
    cells = bench.counted()
    assert cells[CellKey("t", 0, 0, "web", A.hex())] == untouched
    assert str(cells[CellKey("t", 0, W, "web", A.hex())].ranges) == "30-39, 50-54"
    with bench.store.read() as connection:
        (incident,) = queries.all_incidents(connection)
    assert (incident["kind"], incident["from_offset"], incident["to_offset"]) == (
        "truncated",
        40,
        60,
    )
    assert caplog.text.count("was cut at offset 40") == 1


def test_a_cut_without_epochs_is_seen_by_the_shorter_log(bench: Bench) -> None:
    log = bench.cluster.log()
    bench.cluster.knows_epochs = False
    for number in range(4):
        log.append(stamped(number * 10, 10))
    collector = bench.collector()
    bench.drain(collector)
    log.cut(2)
    bench.drain(collector)
    assert bench.agrees()


def test_what_expired_uncounted_is_an_incident(bench: Bench) -> None:
    log = bench.cluster.log()
    for number in range(4):
        log.append(stamped(number * 10, 10))
    log.expire(2)
    bench.drain(bench.collector())
    assert bench.agrees()
    with bench.store.read() as connection:
        (incident,) = queries.all_incidents(connection)
    assert (incident["kind"], incident["from_offset"], incident["to_offset"]) == ("expired", 0, 20)


def test_a_recreated_topic_is_counted_from_its_beginning(bench: Bench) -> None:
    bench.cluster.log().append(stamped(0, 10))
    collector = bench.collector()
    bench.drain(collector)
    bench.cluster.logs.clear()
    bench.cluster.ids["t"] = uuid.uuid4()
    bench.cluster.log().append(stamped(10, 5))
    for _ in range(4):
        collector.step()
    (seen,) = bench.counted().values()
    assert str(seen.ranges) == "0-14"
    with bench.store.read() as connection:
        assert [row["kind"] for row in queries.all_incidents(connection)] == ["recreated"]


def test_trouble_is_logged_once_when_it_begins_and_once_when_it_ends(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.cluster.log().append(stamped(0, 5))
    collector = bench.collector()
    collector.step()
    bench.cluster.away = True
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            collector.step()
        assert collector.pause_ms > 1000
        bench.cluster.away = False
        collector.step()
    assert collector.pause_ms == 0
    assert caplog.text.count("cannot read the cluster") == 1
    assert caplog.text.count("is well again") == 1


def test_a_batch_that_cannot_be_read_is_passed_over(bench: Bench) -> None:
    """It is read three times, as it may have been damaged on the way; then its partition goes on.
    That it stood still there for ever was held to be right, since nothing behind it was counted."""
    bad = bench.cluster.log("t", 0)
    bad.append(stamped(0, 5))
    data = bytes(bad.batches[0].data)
    bad.batches = split_batches(data[:61] + b"\xff" * (len(data) - 61))
    bench.cluster.log("t", 1).append(stamped(0, 7))
    collector = bench.collector()
    for _ in range(2):
        collector.step()
    at = {(p.topic, p.partition): p for p in collector.ledger.positions.values()}
    assert (at["t", 0].next_offset, at["t", 1].next_offset) == (0, 7)
    for _ in range(3):
        collector.step()
    at = {(p.topic, p.partition): p for p in collector.ledger.positions.values()}
    assert at["t", 0].next_offset == 5
    assert [(hole.start, hole.end) for hole in collector.ledger.holes(("t", 0))] == [(0, 5)]


def test_counted_through_says_when_it_was_last_up_to_date(bench: Bench) -> None:
    log = bench.cluster.log()
    bench.cluster.at_once = 1
    log.append(stamped(0, 5))
    log.append(stamped(5, 5))
    collector = bench.collector()
    collector.step()
    with bench.store.read() as connection:
        (row,) = queries.all_progress(connection)
        assert row["counted_through"] == 0
    before = bench.now
    collector.step()
    with bench.store.read() as connection:
        (row,) = queries.all_progress(connection)
        assert before < row["counted_through"] <= bench.now


def test_monitoring_events_become_claims_and_bad_ones_incidents(bench: Bench) -> None:
    event = AuditEvent(
        kind="producer",
        reporter=f"producer-{'aa' * 8}",
        server="web",
        application="app",
        instance="aa" * 8,
        event_number=0,
        covers_from=0,
        emitted_at=5,
        window_ms=W,
        complete_through=4,
        cells=(CellReport("t", 0, 0, accepted=RangeSet.single(0, 4)),),
    )
    bench.cluster.log()
    log = bench.cluster.log(AUDIT_TOPIC)
    log.append([Told(None, 0, encode_event(event))])
    log.append([Told(None, 0, b"something else")])
    log.append([Told(None, 0, encode_event(event))])
    bench.drain(bench.collector())
    with bench.store.read() as connection:
        (reporter,) = queries.all_reporters(connection)
        (incident,) = queries.all_incidents(connection)
        found = window_evidence.evidence(connection, "producer-to-dc1", "t", 0)
    assert (reporter["complete_through"], reporter["covered"]) == (4, 0)
    assert (incident["kind"], incident["from_offset"]) == ("bad-event", 1)
    assert [row["accepted"] for row in found.upstream] == [[0, 4]]


def test_what_a_mirror_could_not_copy_is_an_incident_once(bench: Bench) -> None:
    gaps = (Gap("t", 0, 5, 9, "retention", 7), Gap("t", 0, 20, 20, "control", 7))
    event = AuditEvent(
        kind="mirror",
        tier="mirror",
        reporter="mirror-dc0-to-dc1",
        server="host",
        application="mirror",
        instance="",
        event_number=10**18,
        covers_from=0,
        emitted_at=5,
        window_ms=W,
        complete_through=4,
        gaps=gaps,
    )
    log = bench.cluster.log(AUDIT_TOPIC)
    for number in range(3):
        repeated = replace(event, event_number=10**18 + number)
        log.append([Told(None, 0, encode_event(repeated))])
    bench.drain(bench.collector())
    with bench.store.read() as connection:
        (incident,) = queries.all_incidents(connection)
    assert (incident["kind"], incident["from_offset"], incident["to_offset"]) == ("gap", 5, 10)
    assert "mirror-dc0-to-dc1 could not copy" in incident["reason"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from([A, B]), st.integers(0, 12), st.integers(-1, 2500)),
            st.none(),
        ),
        max_size=30,
    ),
    st.integers(1, 7),
)
def test_runs_are_what_single_records_say(
    script: list[tuple[bytes, int, int] | None], portion: int
) -> None:
    told = [
        Told(None, 3) if one is None else Told(Stamp(one[0], 0, one[1], "web"), one[2])
        for one in script
    ]
    bench = Bench(MemoryCluster(), store=None)  # type: ignore[arg-type]  # counts only
    log = bench.cluster.log()
    for start in range(0, len(told), portion):
        log.append(told[start : start + portion])
    batches = log.batches
    cells = count(runs_in(batches, "t", 0, 0, Rules(W, 10**9)), 0, {})
    assert {key: (seen.count, seen.ranges) for key, seen in cells.items()} == bench.plainly()
    for seen in cells.values():
        assert len(seen.copies) == seen.duplicate_count
