"""A store that collectors have counted into, by hand, and the judges of its clusters: for tests of
edges. Judging, history and watermarks are real."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.deployment import (
    AuditedGroup,
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    Mirror,
)
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.store import Store
from tallymark_audit.store.counted import claims, counts, positions
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.upsert import upsert

W = 1000
AUDIT = AuditSettings(window_ms=W, settle_min_ms=500, silence_ms=3000)
WHO = "61" * 8
NAMES = ("dc1", "dc2", "aggregate", "backup")


def deployment(*mirrors: Mirror, folder: Path = Path("x"), **audit: Any) -> Deployment:
    clusters = tuple(Cluster(name=name, brokers=(BrokerAddress(port=1),)) for name in NAMES)
    settings = AUDIT.model_copy(update=audit)
    return Deployment(data_dir=folder, clusters=clusters, mirrors=mirrors, audit=settings)


BILLING = AuditedGroup(cluster="dc1", group="billing")
INTO = Mirror(source="dc1", target="aggregate", rename="{source}.{topic}")
CHAIN = (
    INTO,
    Mirror(source="dc2", target="aggregate", rename="{source}.{topic}"),
    Mirror(source="aggregate", target="backup", topics="dc1.*", renames={r"dc1\.(.*)": r"\1"}),
)


@dataclass
class Stage:
    """A store that collectors have counted into, by hand. ``now`` in ms."""

    store: Store
    deployment: Deployment
    now: int = 100_000
    judges: dict[str, JudgeLoop] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NAMES:
            self.ledgers[name] = Ledger(self.store, name)
            with self.store.write() as connection:
                self.ledgers[name].generation = positions.take_over(
                    connection, name, "me", self.now
                )
        self.begin()

    def begin(self) -> None:
        """New judges, of the deployment as it is now."""
        edges = derive_edges(self.deployment)
        for name, ledger in self.ledgers.items():
            self.judges[name] = JudgeLoop(
                ledger, edges, self.deployment.audit, clock=lambda: self.now
            )

    def counted(self, cluster: str, *topics: str) -> None:
        """The cluster's collector has counted all there is, up to now."""
        rows = [
            {"cluster": cluster, "topic": topic, "partition": 0, "counted_through": self.now}
            for topic in (*topics, "_tallymark_audit")
        ]
        with self.store.write() as connection:
            upsert(connection, tables.progress, rows)

    def see(self, cluster: str, topic: str, sequences: RangeSet, window: int = 0) -> None:
        key = CellKey(topic, 0, window, "web", WHO)
        last = sequences.last if sequences else 0
        seen = Observation(key, sequences.size, 0, sequences, first_offset=0, last_offset=last)
        with self.store.write() as connection:
            counts.save_observations(connection, cluster, topic, 0, [seen], self.now)

    def tell(self, cluster: str, **fields: Any) -> None:
        told: dict[str, Any] = {
            "kind": "producer",
            "reporter": "p",
            "server": "web",
            "application": "app",
            "instance": WHO,
            "event_number": 0,
            "covers_from": 0,
            "emitted_at": self.now,
            "window_ms": W,
            "complete_through": self.now,
        }
        told |= fields
        event = AuditEvent(**{"tier": told["kind"], **told})
        with self.store.write() as connection:
            claims.add_events(connection, cluster, [event], self.now)

    def claim(self, topic: str, sequences: RangeSet, window: int = 0, **more: Any) -> None:
        cell = CellReport(
            topic,
            0,
            window,
            count=sequences.size,
            accepted=sequences,
            acknowledged=sequences,
        )
        self.tell("dc1", cells=(cell,), **more)

    def judge(self, cluster: str) -> None:
        self.judges[cluster].step(self.now)

    def state(self, edge: str, topic: str, window: int = 0) -> str:
        return str(self.row(edge, topic, window)["state"])

    def row(self, edge: str, topic: str, window: int = 0) -> Any:
        with self.store.read() as connection:
            rows = queries.windows(connection, edge, topic, window, window + 1)
        return rows[0] if rows else {"state": "none"}


def span(first: int, last: int) -> RangeSet:
    return RangeSet.single(first, last)
