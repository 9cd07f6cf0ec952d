"""Three clusters, their collectors, judges and namers, and one store: what ends where.

Brokers are in memory; everything between them and the verdicts is real; time is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.client.producing.stamps import Stamp
from tallymark.deployment import AuditSettings, Deployment, LakeSettings, dump_toml
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.collector.judging.naming import Namer
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, Copied, Gap
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.testing import MemoryCluster, Told

W = 1000
AUDIT = AuditSettings(window_ms=W, settle_min_ms=500, silence_ms=3000, report_interval_ms=100)
NAMES = ("dc1", "dc2", "aggregate")


@dataclass
class Publisher:
    """A producer with its books, and a cluster to publish to."""

    cluster: MemoryCluster
    instance: bytes
    tally: Tally = field(init=False)
    next: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next sequence of each partition."""

    def __post_init__(self) -> None:
        code = self.instance.hex()
        self.tally = Tally(ReporterIdentity(f"producer-{code}", "web", "app", code, W, 0))

    def publish(
        self, timestamp: int, count: int, lose: int = 0, partition: int = 0, topic: str = "t"
    ) -> None:
        """Acknowledge ``count`` records; the last ``lose`` of them never reach the log."""
        first = self.next.get((topic, partition), 0)
        end = self.next[topic, partition] = first + count
        key = TallyKey(topic, partition, timestamp - timestamp % W)
        run = Run(key, first, end - 1, timestamp, timestamp)
        self.tally.accept(run, count, timestamp)
        self.tally.settle(key, Outcome.ACKNOWLEDGED, run.first, run.last, timestamp)
        told = [
            Told(Stamp(self.instance, partition, n, "web"), timestamp, str(n).encode())
            for n in range(first, end - lose)
        ]
        if told:
            self.cluster.log(topic, partition).append(told)

    def report(self, now: int, closed: bool = False) -> None:
        for event in self.tally.report(now, now, closed):
            self.tally.published(event.event_number)
            self.cluster.log(AUDIT_TOPIC).append([Told(None, now, encode_event(event))])


@dataclass
class World:
    """The deployment under test; time is a number."""

    store: Store
    deployment: Deployment
    now: int = 10_000
    worked_ms: float = 0.0
    """What the judges take for the time of their processor."""
    clusters: dict[str, MemoryCluster] = field(default_factory=dict)
    collectors: dict[str, Collector] = field(default_factory=dict)
    judges: dict[str, JudgeLoop] = field(default_factory=dict)
    namers: dict[str, Namer] = field(default_factory=dict)
    copied: dict[tuple[str, str, int], int] = field(default_factory=dict)
    mirror_events: int = 0
    counts_again: bool = True
    """Whether collectors do what they are asked to count again."""

    def __post_init__(self) -> None:
        for name in NAMES:
            self.clusters[name] = MemoryCluster(at_once=20)
            self.clusters[name].log("t")
            self.clusters[name].log(AUDIT_TOPIC)
            self.start(name)
            self.judge(name)

    def start(self, name: str) -> None:
        settings = CollectorSettings(name, W, max_wait_ms=0)
        collector = Collector(
            self.store, self.clusters[name], settings, name, clock=lambda: self.now
        )
        collector.start()
        self.collectors[name] = collector

    def judge(self, name: str) -> None:
        """Judge as the collector of the cluster that was started last."""
        ledger, edges = self.collectors[name].ledger, derive_edges(self.deployment)
        # Work takes no time here: on a busy machine a piece took longer than its slice, and the
        # topic rested for seconds of this world.
        self.judges[name] = JudgeLoop(
            ledger, edges, AUDIT, clock=lambda: self.now, meter=lambda: self.worked_ms
        )
        self.namers[name] = Namer(
            ledger, edges, self.clusters.__getitem__, W, clock=lambda: self.now
        )

    def mirror(self, source: str) -> None:
        """Copy what is new in ``source`` into the aggregate."""
        for (topic, partition), log in list(self.clusters[source].logs.items()):
            if topic == AUDIT_TOPIC:
                continue
            target = self.clusters["aggregate"].log(topic, partition)
            place = source, topic, partition
            for batch in log.batches[self.copied.get(place, 0) :]:
                target.append_records([parts_of(record) for record in batch.records()])
            self.copied[place] = len(log.batches)

    def mirror_reports(
        self,
        source: str,
        gaps: Sequence[Gap] = (),
        copied: Sequence[Copied] = (),
        closed: bool = False,
    ) -> None:
        """What the mirror out of ``source`` tells on the aggregate's audit topic."""
        self.mirror_events += 1
        event = AuditEvent(
            kind="mirror",
            tier="mirror",
            reporter=f"mirror-{source}-to-aggregate",
            server="host",
            application="mirror",
            instance="",
            event_number=10**18 + self.mirror_events,
            covers_from=0,
            emitted_at=self.now,
            window_ms=W,
            complete_through=self.now,
            closed=closed,
            gaps=tuple(gaps),
            copied=tuple(copied),
        )
        log = self.clusters["aggregate"].log(AUDIT_TOPIC)
        log.append([Told(None, self.now, encode_event(event))])

    def run(self, ms: int = 1000, without: str = "") -> None:
        """Let time pass; every collector works each second but the one left out."""
        for _ in range(0, ms, 1000):
            self.now += min(ms, 1000)
            for name in NAMES:
                if name != without:
                    for _ in range(2):
                        self.collectors[name].step()
                    if self.counts_again:
                        self.collectors[name].recounting.step(self.now)
            for name in NAMES:
                if name != without:
                    self.namers[name].step(self.judges[name].step(self.now), self.now)

    def verdicts(self, edge: str, topic: str = "t") -> dict[int, Row]:
        with self.store.read() as connection:
            return {row["window"]: row for row in queries.windows(connection, edge, topic)}

    def states(self, edge: str, topic: str = "t") -> dict[int, str]:
        return {window: row["state"] for window, row in self.verdicts(edge, topic).items()}

    def reader(self, cluster: str) -> Any:
        return self.clusters[cluster]

    producer = reader

    def compacted(self, cluster: str, topic: str) -> bool:
        return False


def parts_of(record: Any) -> Any:
    """Of a record what is appended elsewhere."""
    return record.key, record.value, record.headers, record.timestamp


@contextmanager
def world_in(
    folder: Path, database: str | None = None, lake: LakeSettings | None = None
) -> Iterator[World]:
    """A world whose settings are in ``folder``, and its store, too, unless it is ``database``."""
    audit = AUDIT.model_copy(update={"store": database}) if database else AUDIT
    deployment = Deployment(data_dir=folder, audit=audit, lake=lake)
    (folder / "tallymark.toml").write_text(dump_toml(deployment))
    with open_store(deployment.audit_store) as store:
        yield World(store, deployment)


def publisher(world: World, cluster: str, letter: bytes) -> Publisher:
    return Publisher(world.clusters[cluster], letter * 8)


def steady(world: World, *publishers: Publisher, ms: int = 3000) -> None:
    """Publish and report for a while, mirrored at once."""
    for _ in range(0, ms, 500):
        for one in publishers:
            one.publish(world.now, 10)
            one.report(world.now)
        for source in ("dc1", "dc2"):
            world.mirror(source)
        world.run(500)


def heartbeats(world: World, *publishers: Publisher, ms: int = 4000) -> None:
    """Let windows settle while producers are alive."""
    for _ in range(0, ms, 1000):
        for one in publishers:
            one.report(world.now)
        world.run(1000)
