"""What every drill needs: the processes started, and the verdicts once they are settled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark.client import Admin
from tallymark.client.admin.topics import PartitionDescription
from tallymark.clock import now_ms
from tallymark.replication.features import REPLICATION
from tallymark_audit.proof.drill.findings.found import read_verdicts, undecided, unnamed
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    DATACENTERS,
    PARTITIONS,
    SETTLE_MS,
    TOPIC,
    WINDOW_MS,
    SideTopic,
    Topology,
)
from tallymark_audit.proof.drill.running.processes import DrillProcesses, proxy_of, wait_until
from tallymark_audit.proof.harness.narrate import Narrator

QUIET_SECONDS: Final = 4.0
"""Verdicts that have not changed for so long, and are all decided, are what is compared."""
SETTLE_SECONDS: Final = 90.0
"""For what takes seconds on a machine that does nothing else."""
COMMAND_SECONDS: Final = 120.0
REPAIR_SECONDS: Final = 600.0
"""Of a torn tail it may have to copy a thousand messages, cell by cell."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The processes of a drill, its store, and the narrator."""

    topology: Topology
    processes: DrillProcesses
    narrator: Narrator

    @property
    def store(self) -> str:
        """Where the audit keeps its verdicts."""
        return self.topology.deployment.audit_store

    def begin(self, seed: int, topics: Sequence[SideTopic] = ()) -> None:
        """Start everything but producers, and wait until it serves. ``topics``: those beside the
        main one."""
        with self.narrator.step("starting ZooKeeper, brokers, proxies, mirrors and collectors"):
            for number, hop in enumerate(self.topology.hops.values()):
                self.processes.start_proxy(hop, seed * 10 + number)
            self.processes.start_services(["zookeeper"])
            self.processes.start_services(["broker-"])
            for cluster in self.topology.deployment.clusters:
                if len(cluster.brokers) > 1:
                    self._allow_replicas(cluster.name)
            for name in DATACENTERS:
                with Admin(bootstrap_servers=self.topology.straight(name)) as admin:
                    admin.create_topic(TOPIC, PARTITIONS)
            for topic in topics:
                self._make(topic)
            for name in self.topology.hops:
                self.processes.wait_ready(proxy_of(name))
            self.processes.start_services(["mirror-", "collector-"])

    def _allow_replicas(self, cluster: str) -> None:
        """Let topics have several replicas, once all brokers are members."""
        nodes = self.topology.nodes(cluster)

        with Admin(bootstrap_servers=self.topology.straight(cluster)) as admin:
            wait_until(
                lambda: len(admin.describe_cluster().brokers) == len(nodes),
                SETTLE_SECONDS,
                f"not all brokers of {cluster} are members of it",
                self.processes,
            )
            admin.update_features({REPLICATION: 1})

    def leaders(self, cluster: str, topic: str) -> dict[int, int]:
        """Partition -> the broker that leads it; -1: none does."""
        return {one.partition: one.leader for one in self.partitions(cluster, topic)}

    def partitions(self, cluster: str, topic: str) -> Sequence[PartitionDescription]:
        """The topic's partitions, as the first broker that answers sees them."""
        with Admin(bootstrap_servers=self.topology.straight(cluster)) as admin:
            found = admin.describe_topics([topic])
            found.check()
            return found.done[topic].partitions

    def _make(self, topic: SideTopic) -> None:
        """At home and downstream, where a mirror would make it without its size of segments."""
        configs = {"segment.bytes": str(topic.segment_bytes)} if topic.segment_bytes else {}
        for cluster, more in ((topic.home, dict(topic.at_home)), (AGGREGATE, {})):
            with Admin(bootstrap_servers=self.topology.straight(cluster)) as admin:
                admin.create_topic(topic.name, topic.partitions, configs | more)

    def verdicts(
        self,
        title: str,
        patience: float = SETTLE_SECONDS,
        unreadable: Callable[[Mapping[str, Any]], bool] = lambda row: False,
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The verdicts once they are all decided, name what is lost and change no more, and what is
        not decided after so many seconds. ``unreadable``: whether a window cannot be decided."""
        with self.narrator.step(title):
            until = now_ms() - now_ms() % WINDOW_MS + WINDOW_MS
            time.sleep(max(0, until + SETTLE_MS - now_ms()) / 1000)
            last, quiet_since = "", time.monotonic()
            end = time.monotonic() + patience
            while True:
                rows = read_verdicts(self.store)
                readable = [row for row in rows if not unreadable(row)]
                waiting = undecided(readable, until, WINDOW_MS)
                shown = json.dumps([(r["edge"], r["window"], r["revision"]) for r in rows])
                if shown != last or waiting or unnamed(readable):
                    last, quiet_since = shown, time.monotonic()
                quiet = time.monotonic() - quiet_since > QUIET_SECONDS
                if quiet or time.monotonic() > end:
                    break
                self.processes.check()
                time.sleep(0.4)
            self.narrator.say(f"{len(rows)} windows are judged, {len(waiting)} are not")
            return rows, waiting
