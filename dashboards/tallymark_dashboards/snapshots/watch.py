"""The background task: a thread for each cluster and one for the registry, from :meth:`Watch.start`
to :meth:`Watch.close`."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Final, Protocol

from tallymark.clock import now_ms
from tallymark.deployment import Cluster, Deployment, ZooKeeperSettings
from tallymark.errors import ClosedError
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_watch import RegistryWatch
from tallymark_dashboards.snapshots.rhythm import pause

log: Final = logging.getLogger(__name__)
_JOIN_S: Final = 20.0
_LONGEST_S: Final = 1.0


class Stopped(Exception):
    """The task is to stop."""


class Breath:
    """Called between two portions of work: it sleeps as long as the portion took, so that pages,
    which share the interpreter with it, get their turn. Raises :class:`Stopped` once the task is to
    stop."""

    def __init__(self, stopping: Event) -> None:
        self._stopping = stopping
        self._begun = time.monotonic()

    def __call__(self) -> None:
        took = time.monotonic() - self._begun
        if self._stopping.wait(min(_LONGEST_S, took)):
            raise Stopped
        self._begun = time.monotonic()


class _Looker(Protocol):
    def look(self, every_ms: int) -> bool: ...

    def close(self) -> None: ...


def zookeeper_of(deployment: Deployment, cluster: Cluster) -> str:
    """Where groups of the cluster may be in ZooKeeper; "" where nothing of the deployment needs one
    and the settings name none: what listens at the default address then is another's."""
    needs = (
        deployment.zookeeper.embedded
        or any(one.kind != "apache-kafka" for one in deployment.clusters)
        or any(one.embedded for one in deployment.mirrors)
    )
    named = deployment.zookeeper.connect != ZooKeeperSettings().connect
    return f"{deployment.zookeeper.connect}{cluster.root}" if needs or named else ""


class Watch:
    """Keeps ``snapshots`` up to date. A cluster that is slow or away holds up no other one, and no
    page."""

    def __init__(self, deployment: Deployment, snapshots: Snapshots) -> None:
        self._stopping = Event()
        self._interval_s = deployment.dashboards.snapshot_ms / 1000
        self._lookers: list[tuple[str, _Looker, Callable[[], None]]] = []
        self._threads: list[Thread] = []
        for cluster in deployment.clusters:
            zookeeper = zookeeper_of(deployment, cluster)
            watch = ClusterWatch(cluster, zookeeper, now_ms, Breath(self._stopping))
            watch.on_state = snapshots.put
            snapshots.courses_from(cluster.name, watch.book.course_of)
            self._lookers.append((cluster.name, watch, partial(_publish, snapshots, watch)))
        registry = RegistryWatch(deployment, now_ms, Breath(self._stopping))
        self._lookers.append(("registry", registry, lambda: snapshots.put_registry(registry.state)))

    def start(self) -> None:
        """Start the threads; returns at once."""
        for name, looker, publish in self._lookers:
            thread = Thread(
                target=self._run, args=(name, looker, publish), name=f"snapshot {name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop: no thread and no connection is left. Idempotent."""
        self._stopping.set()
        for _, looker, _ in self._lookers:
            looker.close()
        for thread in self._threads:
            thread.join(_JOIN_S)
        for _, looker, _ in self._lookers:  # what a look opened between the two
            looker.close()

    def _run(self, name: str, looker: _Looker, publish: Callable[[], None]) -> None:
        failures, wait, took = 0, 0.0, 0.0
        while not self._stopping.wait(wait):
            # Processor time of the whole process: waiting for the network costs nothing, and while
            # pages are busy the looks become rarer.
            begun = time.process_time()
            try:
                reached = looker.look(round(1000 * self._pause(took, failures, 0.5)))
            except (Stopped, ClosedError):
                continue  # the next wait ends the loop
            except Exception:
                if self._stopping.is_set():
                    return  # its client was closed under it
                # A fault of ours must not end the watching: pages show the age of what there is.
                log.exception("the state of %s could not be read", name)
                reached = False
            else:
                publish()
            failures = 0 if reached else failures + 1
            took = time.process_time() - begun
            wait = self._pause(took, failures, random.random())

    def _pause(self, took_s: float, failures: int, chance: float) -> float:
        return pause(took_s, failures, chance, self._interval_s)


def _publish(snapshots: Snapshots, watch: ClusterWatch) -> None:
    snapshots.put(watch.state)
