"""Very many partitions with three replicas whose leads move at once."""

from __future__ import annotations

import re
import threading
import time
from functools import partial
from typing import Final, NamedTuple

from support.own_broker import OwnBroker
from support.replicated import Cluster
from support.replication.until import until

from tallymark.client import Admin, NewTopic
from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from tallymark.testing.wire import WireClient

PER_TOPIC: Final = 500
_HANDED_OVER: Final = re.compile(r"leads handed over count=(\d+) kept=(\d+) seconds=([0-9.]+)")
_ASK_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 900.0
"""Ten thousand partitions on a busy machine take minutes."""
_until: Final = partial(until, seconds=_LONGEST_SECONDS)


class Handed(NamedTuple):
    """What a broker's log says of its clean stop: leads that went and stayed, and seconds."""

    moved: int
    kept: int
    seconds: float


class ManyPartitions:
    """``count`` partitions on three brokers. ``first``: broker 1 leads all of them; else each
    broker a third."""

    def __init__(self, brokers: Cluster, count: int, *, first: bool) -> None:
        self._brokers = brokers
        self._topics = [f"many-{number}" for number in range(-(-count // PER_TOPIC))]
        self._sizes = [min(PER_TOPIC, count - at) for at in range(0, count, PER_TOPIC)]
        self._first = first
        self.count = count

    def create(self) -> float:
        """Create them, and wait until all replicas are in sync; returns the seconds."""
        began = time.monotonic()
        with Admin(bootstrap_servers=self._brokers.bootstrap_servers) as admin:
            for name, size in zip(self._topics, self._sizes, strict=True):
                places = {
                    at: [(at * (not self._first) + more) % 3 + 1 for more in range(3)]
                    for at in range(size)
                }
                configs = {"min.insync.replicas": "2"}
                admin.create_topics([NewTopic(name, configs=configs, assignment=places)]).check()
        self.wait_until_whole()
        return time.monotonic() - began

    def wait_until_whole(self) -> None:
        """Until each partition has a leader and all replicas in sync."""
        self._wait_topic_by_topic(None, 3, "all partitions are whole")

    def wait_until_led_without(self, broker: int) -> None:
        """Until each partition has a leader other than ``broker``."""
        self._wait_topic_by_topic(broker, 1, f"others lead than broker {broker}")

    def wait_until_led_by(self, broker: int) -> None:
        """Until ``broker`` says that it leads them all."""
        asked = self._brokers.brokers[broker]
        _until(lambda: self._leads_of(asked, broker) == self.count, f"broker {broker} leads all")

    def give_back(self) -> None:
        """Each partition gets its preferred leader."""
        keys = [
            (name, at)
            for name, size in zip(self._topics, self._sizes, strict=True)
            for at in range(size)
        ]
        with Admin(bootstrap_servers=self._brokers.bootstrap_servers) as admin:
            admin.elect_leaders(keys).check()
        self.wait_until_led_by(1)

    def _wait_topic_by_topic(self, without: int | None, members: int, what: str) -> None:
        """Until each partition has a leader other than ``without`` and so many in sync. One topic
        at a time: to describe all of them over and over takes most of the broker's processor."""
        other = next(one for number, one in self._brokers.brokers.items() if number != without)

        def is_done(topic: str, size: int) -> bool:
            parts = self._described(other, [topic])
            return size == sum(
                part.leader_id not in (-1, without) and len(part.isr_nodes) >= members
                for part in parts
            )

        for topic, size in zip(self._topics, self._sizes, strict=True):
            _until(partial(is_done, topic, size), what)

    def _leads_of(self, asked: OwnBroker, broker: int) -> int:
        return sum(part.leader_id == broker for part in self._described(asked, self._topics))

    def _described(self, broker: OwnBroker, names: list[str]) -> list[MetadataResponsePartition]:
        """As ``broker`` describes these topics; empty where it does not answer."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        try:
            with WireClient(broker.address, timeout=_ASK_SECONDS) as wire:
                found = wire.ask(MetadataRequest(topics=topics), 12).topics
        except OSError:
            return []
        return [part for topic in found for part in topic.partitions]


def stop_in_background(broker: OwnBroker) -> threading.Thread:
    """A clean stop; the thread ends with it."""
    thread = threading.Thread(target=broker.stop, daemon=True)
    thread.start()
    return thread


def handed_over(broker: OwnBroker) -> Handed | None:
    """What the log of its last run says; None where it moved nothing."""
    found = _HANDED_OVER.search((broker.folder / "output").read_text(errors="replace"))
    return Handed(int(found[1]), int(found[2]), float(found[3])) if found else None


def start_until_ready(broker: OwnBroker) -> float:
    """Seconds until it says that it serves: ports are open before."""
    began = time.monotonic()
    broker.start()
    output = broker.folder / "output"
    text = f"ready {broker.address}"
    _until(lambda: text in output.read_text(errors="replace"), "it is ready")
    return time.monotonic() - began
