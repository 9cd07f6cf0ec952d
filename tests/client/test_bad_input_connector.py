"""What networks and brokers do to a consumer of a group: it goes on, or says why it cannot."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cancel_everywhere import cancel_everywhere, reaches

from tallymark.client import Admin, AsyncConsumer, Producer
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.connector.stream import Stream
from tallymark.errors import ConnectError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.flaky_proxy import FlakyProxy

pytestmark = pytest.mark.process


@pytest.fixture
def proxy() -> Iterator[FlakyProxy]:
    with FlakyProxy() as proxy:
        yield proxy


@pytest.fixture
def broker(tmp_path: Path, proxy: FlakyProxy) -> Iterator[BrokerThread]:
    """One that clients reach through the proxy only."""
    port = int(proxy.address.rpartition(":")[2])
    with BrokerThread(
        tmp_path,
        advertised_host_name="127.0.0.1",
        advertised_port=port,
        num_partitions=2,
        group_initial_rebalance_delay_ms=0,
    ) as broker:
        proxy.target = broker.bootstrap_servers
        yield broker


def connector(proxy: FlakyProxy, **settings: Any) -> ConsumerConnector:
    fixed: dict[str, Any] = {"group": "g", "fetch_max_wait_ms": 50, "request_timeout_ms": 1000}
    return ConsumerConnector(bootstrap_servers=proxy.address, **(fixed | settings))


def take(stream: Stream, wanted: set[bytes], seconds: float = 20.0) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + seconds
    while not wanted <= set(found):
        assert time.monotonic() < deadline, wanted - set(found)
        found += [message.value or b"" for message in stream.poll(0.05)]
    return found


def publish(proxy: FlakyProxy, first: int) -> set[bytes]:
    values = {b"%d" % number for number in range(first, first + 10)}
    with Producer(bootstrap_servers=proxy.address, interceptors=[], linger_ms=0) as producer:
        for value in values:
            producer.send("t", value)
    return values


def create(proxy: FlakyProxy) -> None:
    with Admin(bootstrap_servers=proxy.address) as admin:
        admin.create_topic("t", 2)


def test_broken_connections_lose_and_repeat_nothing(
    proxy: FlakyProxy, broker: BrokerThread
) -> None:
    create(proxy)
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found: list[bytes] = []
        everything: set[bytes] = set()
        harms: list[Callable[[], None]] = [
            proxy.cut,
            proxy.half_close,
            lambda: proxy.cut_after(30),
            lambda: proxy.corrupt(1),
        ]
        for round_, harm in enumerate(harms):
            sent = publish(proxy, 100 * round_)
            everything |= sent
            harm()
            found += take(stream, sent)
            proxy.heal()
        assert sorted(found) == sorted(everything)


def test_a_broker_that_falls_silent_and_comes_back(proxy: FlakyProxy, broker: BrokerThread) -> None:
    create(proxy)
    with connector(proxy, session_timeout_ms=6000, heartbeat_interval_ms=200) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        proxy.black_hole()
        cpu = time.process_time()
        time.sleep(1.5)
        assert time.process_time() - cpu < 0.75, "no busy loop"
        proxy.heal()
        proxy.cut()
        found += take(stream, publish(proxy, 100))
        assert len(found) == 20


def test_a_broker_that_is_killed_and_started_again(proxy: FlakyProxy, broker: BrokerThread) -> None:
    create(proxy)
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        found = take(stream, publish(proxy, 0))
        broker.stop()
        assert stream.poll(0.3) == []
        broker.start()
        proxy.target = broker.bootstrap_servers
        found += take(stream, publish(proxy, 100))
        assert len(set(found)) == 20


@pytest.mark.parametrize("harm", ["refuse", "black_hole"])
def test_leaving_a_cluster_that_is_gone_is_bounded(
    harm: str, proxy: FlakyProxy, broker: BrokerThread
) -> None:
    create(proxy)
    before = set(threading.enumerate())
    with connector(proxy) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        take(stream, publish(proxy, 0))
        getattr(proxy, harm)()
        if harm == "refuse":
            proxy.cut()
        began = time.monotonic()
        consumer.shutdown(timeout=2.0)
        assert time.monotonic() - began < 12
        proxy.heal()
    left = [t for t in threading.enumerate() if t not in before and t.is_alive()]
    assert [t for t in left if "tallymark" in t.name] == []


def test_no_broker_at_the_start_says_where(proxy: FlakyProxy) -> None:
    proxy.refuse()
    began = time.monotonic()
    with (
        connector(proxy, start_timeout_ms=500) as consumer,
        pytest.raises(ConnectError, match=f"{proxy.address}: connect failed: refused"),
    ):
        consumer.create_message_streams({"t": 1})
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "just over"])
def test_the_asyncio_consumer_is_cancelled_at_every_await(
    late: bool, proxy: FlakyProxy, broker: BrokerThread
) -> None:
    """A message that was on its way to somebody who was cancelled goes to the next who asks."""
    create(proxy)

    async def scenario() -> None:
        found: list[bytes | None] = []
        with Producer(bootstrap_servers=proxy.address, interceptors=[], linger_ms=0) as producer:
            settings: dict[str, Any] = {"group": "async", "fetch_max_wait_ms": 50}
            async with AsyncConsumer(bootstrap_servers=proxy.address, **settings).subscribe(
                "t"
            ) as consumer:

                async def once(at: int) -> bool:
                    value = b"%d" % at
                    producer.send("t", value, partition=0)

                    async def work() -> None:
                        found.append((await anext(consumer)).value)
                        found.append((await anext(consumer)).value)  # has to be waited for
                        await consumer.commit()

                    asyncio.get_running_loop().call_later(0.1, producer.send, "t", value + b"+")
                    came = await reaches(work(), at, late)
                    while value + b"+" not in found or value not in found:
                        found.append((await asyncio.wait_for(anext(consumer), 20)).value)
                    return came

                count = await cancel_everywhere(once)
        assert count > 0
        assert len(found) == len(set(found)) == 2 * (count + 1)

    asyncio.run(scenario())
