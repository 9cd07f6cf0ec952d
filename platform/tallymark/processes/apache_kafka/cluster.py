"""Several Apache Kafka brokers that are one cluster: each is broker and controller (KRaft)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tallymark.closing import ClosedByWith
from tallymark.processes.apache_kafka.server import (
    QUICK_START,
    ApacheKafkaServer,
    Quorum,
    new_cluster_id,
)
from tallymark.processes.free_ports import free_ports

_STOP_SECONDS: Final = 5.0
_PATIENT: Final = {
    # On a busy machine three JVMs that start together keep each other waiting.
    "initial.broker.registration.timeout.ms": "180000",
    "broker.session.timeout.ms": "6000",
    "controller.quorum.fetch.timeout.ms": "5000",
    "controller.quorum.election.timeout.ms": "2000",
}


class ApacheKafkaCluster(ClosedByWith):
    """Brokers 1 to ``size`` with their data in folders of ``folder``, started by :meth:`start` or
    as a context manager. ``settings``, ``heap`` and ``jvm`` are those of each, as
    :class:`ApacheKafkaServer` has them. One of ``brokers`` may be stopped, killed and started again
    as long as the others are a majority. Not thread-safe."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        size: int = 3,
        heap: str = "512m",
        jvm: Sequence[str] = QUICK_START,
    ) -> None:
        self.folder = folder.absolute()
        numbers = range(1, size + 1)
        # Together, so that no broker gets the port of another's controller.
        ports = free_ports(2 * size)
        quorum = Quorum(new_cluster_id(), dict(zip(numbers, ports[size:], strict=True)))
        self.brokers = {
            number: ApacheKafkaServer(
                self.folder / f"broker-{number}",
                {**_PATIENT, **(settings or {})},
                port=port,
                node_id=number,
                heap=heap,
                jvm=jvm,
                quorum=quorum,
            )
            for number, port in zip(numbers, ports[:size], strict=True)
        }

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all, divided by commas."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start all of them, and wait until each answers. Raises as ApacheKafkaServer does; none is
        left running then."""
        try:
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_ready()
        except BaseException:
            for broker in self.brokers.values():
                broker.kill()
            raise

    def close(self) -> None:
        """Stop all. Those that are no majority any more wait in vain for a controller that lets
        them go, and are killed. Idempotent."""
        for broker in self.brokers.values():
            broker.stop(_STOP_SECONDS)

    def __enter__(self) -> ApacheKafkaCluster:
        self.start()
        return self
