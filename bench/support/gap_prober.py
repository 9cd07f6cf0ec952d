"""A client that writes one record after the other, for the gap in which a partition has no leader.

It asks for the leader again after 100 ms without one, and after 300 ms without an answer: real
clients wait about as long (``retry.backoff.ms``). A broker that did not answer is asked last: a
client keeps connections to others, so a gap is not longer because the first one stands still.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Final

from support.replicated import Cluster

from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.messages.k03_metadata import MetadataResponsePartition
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient

_ANSWER_SECONDS: Final = 0.3
_PAUSE_SECONDS: Final = 0.1


class Prober(threading.Thread):
    """Writes one record after the other with ``acks=all``, and notes when each was acknowledged."""

    def __init__(self, brokers: Cluster, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[float] = []
        self._addresses = [broker.address for broker in brokers.brokers.values()]
        self._by_id = {number: broker.address for number, broker in brokers.brokers.items()}
        self._topic = topic
        self._over = threading.Event()
        self._order = threading.Lock()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._write(self._leader())
            except (OSError, KeyError, AssertionError):
                time.sleep(_PAUSE_SECONDS)

    def leader(self) -> int:
        """The broker that leads the topic's partition."""
        while True:
            for found in self._described():
                if found.leader_id > 0:
                    return found.leader_id
            time.sleep(_PAUSE_SECONDS)

    def in_sync(self) -> set[int]:
        """The ISR as the brokers know it; empty where none answers."""
        return next((set(found.isr_nodes) for found in self._described()), set())

    def _described(self) -> Iterator[MetadataResponsePartition]:
        """The partition as each broker that answers describes it."""
        for address in tuple(self._addresses):
            try:
                with WireClient(address, timeout=_ANSWER_SECONDS) as wire:
                    asked = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
                    found = wire.ask(asked, 12).topics[0].partitions
            except (OSError, AssertionError):
                self._ask_last(address)
                continue
            if found:
                yield found[0]

    def _ask_last(self, address: str) -> None:
        with self._order:
            self._addresses.remove(address)
            self._addresses.append(address)

    def _leader(self) -> str:
        return self._by_id[self.leader()]

    def _write(self, address: str) -> None:
        records = encode_batch([(None, b"x" * 100, (), 1)])
        part = ProduceRequestPartition(index=0, records=records)
        topic = ProduceRequestTopic(name=self._topic, partition_data=[part])
        asked = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        try:
            self._write_to(address, asked)
        except OSError:
            self._ask_last(address)
            raise

    def _write_to(self, address: str, asked: ProduceRequest) -> None:
        with WireClient(address, timeout=_ANSWER_SECONDS) as wire:
            while not self._over.is_set():
                if wire.ask(asked, 10).responses[0].partition_responses[0].error_code:
                    time.sleep(_PAUSE_SECONDS)
                    return
                self.acknowledged.append(time.monotonic())
                time.sleep(0.002)

    def longest_gap(self, since: float) -> float:
        """Seconds between two acknowledgements, the later one after ``since``."""
        times = [at for at in self.acknowledged if at > since - 1]
        return max(b - a for a, b in itertools.pairwise(times))

    def finish(self) -> None:
        self._over.set()
        self.join(10)
