"""The proxy before a real broker: clients do not notice it, and what it did is in its seal."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark import Producer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import TallymarkError
from tallymark.processes.free_ports import free_ports
from tallymark.testing import MemoryBroker, read_topic
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import read_ground_truth
from tallymark_audit.proof.drill.faults.kinds import Order, write_orders
from tallymark_audit.proof.drill.faults.proxy import Proxy

COUNT = 300
FOREVER = 1 << 60


class ProxyHop:
    """A broker, a proxy before it, and what both have."""

    def __init__(self, broker: MemoryBroker, folder: Path) -> None:
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.broker = broker
        self.folder = folder
        self.orders = folder / "orders.json"
        self.proxy = Proxy(
            {
                "gates": [{"node": 0, "target": broker.bootstrap_servers, "port": port}],
                "hop": "producer-to-dc1",
                "seed": 1,
                "orders": str(self.orders),
                "sealed": str(folder / "proxy.sealed"),
            }
        )
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self.proxy.run(self._stopped))
        )

    def start(self, *orders: Order) -> None:
        write_orders(self.orders, orders)
        self._thread.start()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", int(self.address.rpartition(":")[2]))):
                    return
            time.sleep(0.02)
        raise AssertionError("the proxy does not listen")

    def publish(self) -> None:
        """Everything is acknowledged, or this fails."""
        with Producer(
            bootstrap_servers=self.address,
            linger_ms=0,
            batch_num_messages=20,
            audit=False,
            stamp=True,
        ) as producer:
            sent = [producer.send("orders", b"%d" % number) for number in range(COUNT)]
            for one in sent:
                one.result(60)

    def arrived(self) -> list[tuple[int, bytes | None]]:
        """Sequence and value of every record that the broker has, as a client behind the proxy
        reads them."""
        found: list[tuple[int, bytes | None]] = []
        for message in read_topic(self.address, "orders"):
            stamp = stamp_of(message.headers)
            assert isinstance(stamp, Stamp)
            found.append((stamp.sequence, message.value))
        return found

    def sealed(self) -> dict[str, list[int]]:
        """What the proxy wrote down: the sequences by kind of fault."""
        found: dict[str, list[int]] = {}
        for note in read_ground_truth(self.folder):
            for first, last in note.sequences:
                found.setdefault(note.kind, []).extend(range(first, last + 1))
        return found

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(60)
        self._loop.close()


@pytest.fixture
def hop(tmp_path: Path) -> Iterator[ProxyHop]:
    with MemoryBroker(num_partitions=1) as broker:
        made = ProxyHop(broker, tmp_path)
        try:
            yield made
        finally:
            made.close()


def always(kind: str, rate: float, most: int = 1_000, seconds: float = 0.0) -> Order:
    return Order(kind, 0, FOREVER, rate, most, seconds)


def test_without_orders_nothing_is_changed(hop: ProxyHop) -> None:
    hop.start()
    hop.publish()
    assert hop.arrived() == [(number, b"%d" % number) for number in range(COUNT)]
    assert hop.sealed() == {}


@pytest.mark.parametrize("kind", [kinds.DROP, kinds.DROP_BATCH])
def test_what_is_dropped_was_acknowledged_and_is_not_there(hop: ProxyHop, kind: str) -> None:
    hop.start(always(kind, 0.2))
    hop.publish()
    gone = hop.sealed()[kind]
    assert gone
    there = [sequence for sequence, _ in hop.arrived()]
    assert sorted(there + gone) == list(range(COUNT))


@pytest.mark.parametrize("kind", [kinds.DUPLICATE, kinds.DUPLICATE_BATCH])
def test_what_is_repeated_is_there_twice(hop: ProxyHop, kind: str) -> None:
    hop.start(always(kind, 0.2))
    hop.publish()
    twice = hop.sealed()[kind]
    assert twice
    expected = Counter(range(COUNT)) + Counter(twice)
    assert Counter(sequence for sequence, _ in hop.arrived()) == expected


def test_a_lost_answer_makes_the_sender_repeat(hop: ProxyHop) -> None:
    hop.start(always(kinds.LOST_ACK, 0.3, most=2))
    hop.publish()
    lost = hop.sealed()[kinds.LOST_ACK]
    counts = Counter(sequence for sequence, _ in hop.arrived())
    assert set(counts) == set(range(COUNT))
    assert {sequence for sequence, count in counts.items() if count > 1} >= set(lost)


def test_changed_values_arrive_with_a_right_crc(hop: ProxyHop) -> None:
    hop.start(always(kinds.CORRUPT, 0.1))
    hop.publish()
    wrong = [sequence for sequence, value in hop.arrived() if value != b"%d" % sequence]
    assert wrong == sorted(hop.sealed()[kinds.CORRUPT])
    assert wrong


def test_delays_and_changed_places_lose_nothing(hop: ProxyHop) -> None:
    hop.start(always(kinds.REORDER, 0.5), always(kinds.DELAY, 0.5, most=2, seconds=0.2))
    hop.publish()
    there = [sequence for sequence, _ in hop.arrived()]
    assert sorted(there) == list(range(COUNT))
    assert hop.sealed()


def test_a_broker_that_is_away_is_away_for_the_client_too(hop: ProxyHop) -> None:
    hop.start()
    hop.publish()
    hop.broker.stop()
    with pytest.raises(TallymarkError):
        read_topic(hop.address, "orders")
    hop.broker.start()
    assert len(hop.arrived()) == COUNT


def test_a_seal_that_a_kill_cut_is_read_up_to_there(hop: ProxyHop) -> None:
    hop.start(always(kinds.DROP, 0.2))
    hop.publish()
    path = hop.folder / "proxy.sealed"
    whole = read_ground_truth(hop.folder)
    path.write_bytes(path.read_bytes()[:-5])
    assert read_ground_truth(hop.folder) == whole[:-1]
    assert json.loads(path.read_text().splitlines()[0])["hop"] == "producer-to-dc1"
