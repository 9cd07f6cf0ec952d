"""The producer of coroutines against a broker that does what it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cancelling import cancelled_at
from threads_left import no_thread_is_left

from tallymark import AsyncProducer
from tallymark.client.producing.delivery import Delivery
from tallymark.errors import (
    CODES,
    BufferFullError,
    ClientFailedError,
    ClosedError,
    KafkaError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.api import ApiKey
from tallymark.testing import ScriptedBroker
from tallymark.testing.scripted_broker import HangUp, Late, Refuse


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1, "u": 2}) as running:
        yield running


@pytest.fixture(autouse=True)
def threads(broker: ScriptedBroker) -> Iterator[None]:
    with no_thread_is_left():
        yield


def producer(broker: ScriptedBroker, **settings: Any) -> AsyncProducer:
    quick: dict[str, Any] = {"audit": False, "stamp": True, "linger_ms": 1, "retry_backoff_ms": 20}
    return AsyncProducer(bootstrap_servers=broker.address, **(quick | settings))


def tiny(broker: ScriptedBroker, **settings: Any) -> AsyncProducer:
    """Its buffer holds two batches of a record."""
    return producer(broker, **({"batch_size": 100, "buffer_memory": 250} | settings))


def test_what_is_sent_arrives_and_the_delivery_says_where(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with producer(broker) as p:
            deliveries = [await p.send("t", b"%d" % n, headers=[("h", b"1")]) for n in range(50)]
            found = [await delivery for delivery in deliveries]
            assert [m.offset for m in found] == list(range(50))
            assert (await p.send_and_wait("u", b"x", key=b"k", partition=1, timestamp=5)) == (
                "u", 1, 0, 5,
            )  # fmt: skip
            assert len(p.instance) == 8
            assert p.interceptor_errors == 0

    asyncio.run(main())
    assert broker.values("t") == [b"%d" % n for n in range(50)]
    assert broker.values("u", 1) == [b"x"]


def test_a_full_buffer_holds_one_coroutine_back_and_not_the_loop(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, *[Late(0.05)] * 10)

    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        async with tiny(broker) as p:
            counting = asyncio.create_task(count())
            for number in range(20):
                await p.send("t", b"%d" % number)
            counting.cancel()
        return turns

    assert asyncio.run(main()) > 50
    assert broker.values("t") == [b"%d" % number for number in range(20)]


def test_many_coroutines_wait_in_their_order(broker: ScriptedBroker) -> None:
    """For room, that is: those that wait for the topic to be known first may be overtaken by who
    comes when it is (docs/limits.md)."""

    async def main() -> None:
        async with tiny(broker) as p:
            await p.send_and_wait("t", b"first")
            await asyncio.gather(*(p.send_and_wait("t", b"%d" % n) for n in range(100)))

    asyncio.run(main())
    assert broker.values("t") == [b"first", *(b"%d" % number for number in range(100))]


def test_waiting_for_room_is_bounded(broker: ScriptedBroker) -> None:
    async def main() -> None:
        p = tiny(broker, max_block_ms=1_000)
        await p.send("t", b"1")
        await p.flush()
        broker.script(ApiKey.PRODUCE, *[Late(3)] * 3)
        await p.send("t", b"2")
        await p.send("t", b"3")
        with pytest.raises(TimedOutError, match=r"send to t: no room .* within 1 s"):
            await p.send("t", b"4")
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await p.send("t", b"x" * 1000)
        await p.close()

    asyncio.run(main())
    assert broker.values("t") == [b"1", b"2", b"3"]


def test_who_is_told_not_to_wait_does_not(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with tiny(broker, on_buffer_full="fail") as p:
            await p.send("t", b"0")
            await p.flush()  # its room is free, too
            broker.script(ApiKey.PRODUCE, Late(2))
            await p.send("t", b"1")
            await p.send("t", b"2")
            with pytest.raises(BufferFullError):
                await p.send("t", b"3")
        async with tiny(broker, on_buffer_full="drop") as p:
            await p.send("t", b"4")
            await p.flush()
            broker.script(ApiKey.PRODUCE, Late(2))
            deliveries = [await p.send("t", b"5") for _ in range(5)]
            with pytest.raises(BufferFullError):
                await deliveries[-1]
            assert p.dropped == 3

    asyncio.run(main())
    assert broker.values("t") == [b"0", b"1", b"2", b"4", b"5", b"5"]


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "as-it-comes"])
def test_cancelled_at_any_await_a_send_was_taken_in_or_was_not(
    broker: ScriptedBroker, late: bool
) -> None:
    """The k-th await is cancelled, for every k: unknown topic, full buffer, flush, close. What a
    send() returned for is delivered, once; the cancelled one is not there; nothing hangs."""

    async def work(
        p: AsyncProducer, topic: str, taken: list[Delivery], values: list[bytes]
    ) -> None:
        for number in range(8):
            delivery = await p.send(topic, b"%d" % number)
            taken.append(delivery)
            values.append(b"%d" % number)
        await p.flush()
        await p.close()

    async def one(k: int) -> bool:
        topic, taken, values = f"c{k}", list[Delivery](), list[bytes]()
        p = tiny(broker)
        cancelled = await cancelled_at(work(p, topic, taken, values), k, late)
        await p.close()
        assert [(await delivery).offset for delivery in taken] == list(range(len(taken)))
        assert broker.values(topic) == values if values else True
        left = {task for task in asyncio.all_tasks() if not task.done()}
        assert left == {asyncio.current_task()}
        return cancelled

    async def main() -> int:
        k = 1
        while await one(k):
            k += 1
        return k

    assert asyncio.run(main()) > 5


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "as-it-comes"])
def test_cancelling_one_of_many_leaves_the_others_their_turn(
    broker: ScriptedBroker, late: bool
) -> None:
    async def main() -> None:
        async with tiny(broker) as p:
            await p.send_and_wait("t", b"first")
            broker.script(ApiKey.PRODUCE, Late(0.1))
            sends = [asyncio.create_task(p.send("t", b"%d" % n)) for n in range(12)]
            await asyncio.sleep(0.02)
            for task in sends[2::3]:
                task.cancel()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, asyncio.CancelledError):
                assert b"%d" % number not in broker.values("t")
            else:
                assert isinstance(outcome, Delivery)
                assert b"%d" % number in broker.values("t")

    asyncio.run(main())


def test_many_at_once(broker: ScriptedBroker) -> None:
    """A column larger than the buffer: a thread waits for room, the loop goes on."""
    broker.script(ApiKey.PRODUCE, *[Late(0.05)] * 3)

    async def main() -> None:
        async with tiny(broker) as p:
            values = [b"%d" % number for number in range(50)]
            sending = asyncio.create_task(p.send_many("t", values, timestamps=7))
            other = await p.send("u", b"beside")
            delivery = await sending
            assert (await delivery).count == 50
            await other
        async with tiny(broker, on_buffer_full="fail") as p:
            with pytest.raises(BufferFullError):
                await p.send_many("t", [b"x" * 50] * 100)

    asyncio.run(main())
    assert broker.values("t")[:50] == [b"%d" % number for number in range(50)]


def test_send_and_wait_raises_what_kept_the_record_out(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with producer(broker) as p:
            broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
            with pytest.raises(KafkaError, match="INVALID_RECORD"):
                await p.send_and_wait("t", b"x")
            broker.script(ApiKey.PRODUCE, HangUp(after_append=True))
            assert (await p.send_and_wait("t", b"y")).offset == 0
            with pytest.raises(KafkaError, match="the topic has 1 partitions"):
                await p.send("t", b"x", partition=1)
            with pytest.raises(ValueError, match="-1 is not milliseconds"):
                await p.send("t", b"x", timestamp=-1)

    asyncio.run(main())
    assert broker.values("t") == [b"y"]


def test_flush_and_close_have_deadlines(broker: ScriptedBroker) -> None:
    async def main() -> None:
        p = producer(broker)
        await p.send_and_wait("t", b"0")
        broker.script(ApiKey.PRODUCE, *[Late(1.0)] * 5)
        await p.send("t", b"1")
        with pytest.raises(TimedOutError, match="1 records are not delivered yet"):
            await p.flush(0.05)
        delivery = await p.send("t", b"2")
        for _ in range(2):
            with pytest.raises(TimedOutError, match=r"close\(\): \d records were not delivered"):
                await p.close(0.1)
        with pytest.raises(TimedOutError, match="the producer was closed"):
            await delivery
        for call in (p.send("t", b"x"), p.flush()):
            with pytest.raises(ClosedError):
                await call

    asyncio.run(main())


def test_who_waits_for_room_hears_of_the_end(broker: ScriptedBroker) -> None:
    async def main() -> None:
        p = tiny(broker)
        await p.send_and_wait("t", b"0")
        broker.script(ApiKey.PRODUCE, Late(3))
        sends = [asyncio.create_task(p.send("t", b"%d" % n)) for n in range(6)]
        await asyncio.sleep(0.02)
        await p.close()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Delivery] * 2 + [ClosedError] * 4

    asyncio.run(main())


def test_a_death_in_the_background_is_raised_by_whatever_comes_next(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender's pump dies of a bug while a coroutine waits for room and another for its record:
    neither hangs, and later calls say so at once."""

    async def main() -> None:
        p = tiny(broker)
        await p.send_and_wait("t", b"0")
        broker.script(ApiKey.PRODUCE, Late(2))
        sends = [asyncio.create_task(p.send_and_wait("t", b"%d" % n)) for n in range(5)]
        await asyncio.sleep(0.05)

        def bug(_: float) -> None:
            raise ZeroDivisionError("a bug")

        assert p._core is not None
        monkeypatch.setattr(p._core._sender, "_expire", bug)
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ClientFailedError] * 5
        for call in (p.send("t", b"x"), p.flush(), p.send_many("t", [b"x"])):
            with pytest.raises(ClientFailedError, match="died of ZeroDivisionError"):
                await call
        with contextlib.suppress(ClientFailedError):
            await p.close(1.0)

    asyncio.run(main())


def test_several_event_loops_share_a_producer(broker: ScriptedBroker) -> None:
    p = tiny(broker)

    async def send_some(prefix: bytes) -> None:
        await asyncio.gather(*(p.send_and_wait("t", prefix + b"%d" % n) for n in range(30)))

    threads = [
        threading.Thread(target=lambda letter=letter: asyncio.run(send_some(letter)))
        for letter in (b"a", b"b", b"c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    asyncio.run(p.close())
    assert len(broker.values("t")) == 90
    assert set(broker.values("t")) == {b"%c%d" % (c, n) for c in b"abc" for n in range(30)}


def test_the_first_error_is_the_one_to_be_seen(broker: ScriptedBroker) -> None:
    async def main() -> None:
        broker.script(ApiKey.PRODUCE, *[Late(1.0)] * 5)
        async with producer(broker, delivery_timeout_ms=500) as p:
            await p.send("t", b"x")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(main())


def test_settings_are_the_producers(broker: ScriptedBroker) -> None:
    with pytest.raises(TypeError, match="did you mean linger_ms"):
        producer(broker, linger=5)
    with pytest.raises(UserError, match="acks"):
        producer(broker, acks=7)
