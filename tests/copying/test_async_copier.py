"""A copier of coroutines on a broker: output = input, whatever fails in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from eventually import eventually
from group_rig import BROKER, QUICK, SECONDS, Rig

from tallymark import AsyncConsumer, AsyncProducer, SimpleConsumer
from tallymark.client import OutgoingRecord
from tallymark.client.reading.message import Message
from tallymark.copying import AsyncCopier, to_topic
from tallymark.errors import LocalProtocolError, TransactionFatalError, UserError
from tallymark.testing.broker_thread import BrokerThread

_numbers = itertools.count()
COPYING: dict[str, Any] = QUICK | {"enable_auto_commit": False, "isolation": "read_committed"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), **BROKER) as running:
        yield running


@pytest.fixture
def rig(broker: BrokerThread) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(broker.bootstrap_servers, stack)


Story = Callable[[AsyncCopier], Awaitable[None]]


def copying(
    rig: Rig, source: str | list[str], transform: Any, story: Story, name: str = "", **more: Any
) -> None:
    """Run ``story`` with a copier of ``source``, 20 messages a transaction."""

    async def run() -> None:
        name_ = name or f"async-copier-{next(_numbers)}"
        settings = COPYING | {"group": rig.group, "bootstrap_servers": rig.servers} | more
        consumer = AsyncConsumer(**settings)
        try:
            async with AsyncProducer(
                bootstrap_servers=rig.servers, transactional_id=name_
            ) as producer:
                await story(AsyncCopier(consumer, producer, source, transform, max_records=20))
        finally:
            await consumer.close()

    asyncio.run(run())


async def copy_all(copier: AsyncCopier, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while count > 0:
            count -= await copier.step(0.1)
    assert count == 0


def read(rig: Rig, topic: str) -> list[int]:
    """What transactions have committed."""
    found: list[int] = []
    with SimpleConsumer(bootstrap_servers=rig.servers, isolation="read_committed") as consumer:
        position, end = 0, consumer.end_offsets(topic)[0]
        while position < end:
            fetched = consumer.fetch(topic, 0, position)
            found += [int(message.value or b"") for message in fetched]
            position = max(fetched.next_offset, position)
    return found


def test_messages_are_copied_with_their_positions(rig: Rig) -> None:
    source, target = rig.topic(1, 100), rig.topic()

    async def story(copier: AsyncCopier) -> None:
        await copy_all(copier, 100)
        assert await copier.step(0) == 0

    copying(rig, source, to_topic(target), story)
    eventually(lambda: read(rig, target) == list(range(100)), seconds=SECONDS)
    eventually(lambda: rig.stored(source) == 100)


def test_a_coroutine_says_what_is_sent_and_what_it_raises_aborts(rig: Rig) -> None:
    """Two topics at once: the consumer subscribes to a pattern."""
    source, target = rig.topic(1, 60), rig.topic()
    failed = False

    async def transform(message: Message) -> Iterable[OutgoingRecord]:
        nonlocal failed
        await asyncio.sleep(0)
        if message.value == b"45" and not failed:
            failed = True
            raise ZeroDivisionError
        return [OutgoingRecord(target, message.value)]

    async def story(copier: AsyncCopier) -> None:
        await copy_all(copier, 40)
        with pytest.raises(ZeroDivisionError):
            await copy_all(copier, 20)
        await copy_all(copier, 20)

    copying(rig, [source, rig.topic()], transform, story)
    eventually(lambda: read(rig, target) == list(range(60)), seconds=SECONDS)


def test_a_step_that_is_cancelled_copies_nothing_twice_and_leaves_nothing_out(rig: Rig) -> None:
    """At each of many moments: tasks are cancelled after one turn of the event loop, two, and so
    on."""
    source, target = rig.topic(1, 200), rig.topic()

    async def story(copier: AsyncCopier) -> None:
        copied = await copier.step(10)
        for turns in itertools.count():
            step = asyncio.ensure_future(copier.step(0.1))
            for _ in range(turns * 3):
                await asyncio.sleep(0)
            step.cancel()
            try:
                copied += await step
                break  # it was done before it was cancelled
            except asyncio.CancelledError:
                continue
        stop = asyncio.Event()
        running = asyncio.ensure_future(copier.run(stop))
        async with asyncio.timeout(SECONDS):
            while len(await asyncio.to_thread(read, rig, target)) < 200:
                await asyncio.sleep(0.05)
        stop.set()
        assert await running <= 200 - copied

    copying(rig, source, to_topic(target), story)
    assert read(rig, target) == list(range(200))
    eventually(lambda: rig.stored(source) == 200)


def test_a_second_copier_of_an_id_fences_the_first(rig: Rig) -> None:
    source, target = rig.topic(1, 40), rig.topic()

    async def story(copier: AsyncCopier) -> None:
        await copy_all(copier, 20)
        async with AsyncProducer(
            bootstrap_servers=rig.servers, transactional_id="taken"
        ) as producer:
            await producer.init_transactions()
        with pytest.raises(TransactionFatalError):
            await copier.run(asyncio.Event())

    copying(rig, source, to_topic(target), story, name="taken")
    eventually(lambda: read(rig, target) == list(range(20)), seconds=SECONDS)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"enable_auto_commit": True}, "enable_auto_commit=False"),
        ({"isolation": "read_uncommitted"}, "read_committed"),
    ],
)
def test_a_consumer_that_would_copy_twice_is_refused(
    rig: Rig, settings: dict[str, Any], reason: str
) -> None:
    async def story(copier: AsyncCopier) -> None:
        for _ in range(2):
            with pytest.raises(UserError, match=reason):
                await copier.step(0)

    copying(rig, rig.topic(1, 1), to_topic("u"), story, **settings)


def test_a_producer_without_transactions_is_refused(rig: Rig) -> None:
    async def story() -> None:
        consumer = AsyncConsumer(group=rig.group, bootstrap_servers=rig.servers, **COPYING)
        async with AsyncProducer(bootstrap_servers=rig.servers) as producer:
            with pytest.raises(LocalProtocolError, match="transactional_id"):
                await AsyncCopier(consumer, producer, "t", to_topic("u")).step(0)
        await consumer.close()

    asyncio.run(story())


def test_messages_of_a_poll_are_no_more_than_asked_for(rig: Rig) -> None:
    source = rig.topic(1, 30)

    async def story() -> list[int]:
        found: list[int] = []
        settings = COPYING | {"group": rig.group, "bootstrap_servers": rig.servers}
        async with AsyncConsumer(**settings).subscribe(source) as consumer:
            while len(found) < 30:
                messages = await consumer.poll(5, 7)
                assert len(messages) <= 7
                found += [int(message.value or b"") for message in messages]
            assert await consumer.poll(0) == []
        return found

    assert asyncio.run(story()) == list(range(30))
