"""The consumer of coroutines against real brokers, ours and Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from broker_kinds import AT_ONCE, KINDS, AnyBroker, either_broker
from cancelling import cancelled_at
from threads_left import no_thread_is_left

from tallymark import Admin, AsyncConsumer, Producer
from tallymark.client.reading.message import Message
from tallymark.errors import ClosedError, CommitFailedError, TallymarkError, UserError
from tallymark.testing import read_topic

# No process, but some seconds of joining and leaving groups.
pytestmark = [pytest.mark.process, pytest.mark.soak_cases("apache_kafka")]
COUNT = 60


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    for running in either_broker(request, tmp_path_factory.mktemp("data"), **AT_ONCE):
        with (
            Admin(bootstrap_servers=running.bootstrap_servers) as admin,
            Producer(bootstrap_servers=running.bootstrap_servers, audit=False) as producer,
        ):
            for topic in ("t", "u"):
                admin.create_topic(topic, 2)
                for number in range(COUNT):
                    producer.send(topic, b"%d" % number, partition=number % 2)
        yield running


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    with no_thread_is_left():
        yield


def consumer(broker: AnyBroker, group: str, **settings: Any) -> AsyncConsumer:
    return AsyncConsumer(group=group, bootstrap_servers=broker.bootstrap_servers, **settings)


async def take(source: AsyncConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async for message in source:
        messages.append(message)
        if len(messages) == count:
            return messages
    raise AssertionError("the iteration ended")


def by_partition(messages: list[Message]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for message in messages:
        found.setdefault(message.partition, []).append(message.offset)
    return found


def test_all_messages_come_in_order(broker: AnyBroker) -> None:
    async def main() -> None:
        async with consumer(broker, "order").subscribe("t", max_poll_records=7) as source:
            messages = await take(source, COUNT)
            assert source.assignment == {"t": (0, 1)}
        assert by_partition(messages) == {0: list(range(30)), 1: list(range(30))}

    asyncio.run(main())


def test_several_topics_are_one_iteration(broker: AnyBroker) -> None:
    async def main() -> None:
        async with consumer(broker, "several").subscribe("t", "u") as source:
            assert {m.topic for m in await take(source, 2 * COUNT)} == {"t", "u"}
        async with consumer(broker, "pattern").subscribe(pattern="[tu]", deny="u") as source:
            assert {m.topic for m in await take(source, COUNT)} == {"t"}

    asyncio.run(main())


def test_a_commit_stores_what_was_handed_out_and_no_more(broker: AnyBroker) -> None:
    """The consumer has taken 500 at once from its stream; a commit after the 20th message must not
    store the other ones."""

    async def main() -> list[Message]:
        async with consumer(broker, "commit", enable_auto_commit=False).subscribe("t") as source:
            first = await take(source, 20)
            await source.commit()
            await take(source, 5)  # not committed
        async with consumer(broker, "commit", enable_auto_commit=False).subscribe("t") as source:
            return first + await take(source, COUNT - 20)

    assert by_partition(asyncio.run(main())) == {0: list(range(30)), 1: list(range(30))}


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_who_leaves_in_order_repeats_and_loses_nothing(broker: AnyBroker, delivery: str) -> None:
    async def main() -> list[Message]:
        seen: list[Message] = []
        for _ in range(3):
            settings = {"delivery": delivery}
            async with consumer(broker, f"leave-{delivery}", **settings).subscribe("t") as source:
                seen += await take(source, 20)
        return seen

    assert by_partition(asyncio.run(main())) == {0: list(range(30)), 1: list(range(30))}


def test_the_message_at_hand_comes_again_after_an_exception(broker: AnyBroker) -> None:
    async def main() -> None:
        handled: list[Message] = []

        async def handle(at_hand: Message) -> None:
            if len(handled) == 9:
                raise ValueError("cannot handle it")
            handled.append(at_hand)

        async def consume() -> None:
            async with consumer(broker, "at-hand").subscribe("t") as source:
                async for message in source:
                    await handle(message)

        with pytest.raises(ValueError, match="cannot handle it"):
            await consume()
        async with consumer(broker, "at-hand").subscribe("t") as source:
            rest = await take(source, COUNT - 9)
        assert by_partition(handled + rest) == {0: list(range(30)), 1: list(range(30))}

    asyncio.run(main())


def test_seek_and_rewind(broker: AnyBroker) -> None:
    async def main() -> None:
        async with consumer(broker, "seek").subscribe("t", max_poll_records=10) as source:
            await take(source, 15)
            await source.seek("t", 0, 28)
            await source.seek("t", 1, 30)
            assert by_partition(await take(source, 2)) == {0: [28, 29]}
            assert await source.rewind(to_offset=29) == {("t", 0): 29, ("t", 1): 29}
            assert by_partition(await take(source, 2)) == {0: [29], 1: [29]}
            with pytest.raises(CommitFailedError, match="t-7 is not owned"):
                await source.seek("t", 7, 0)
            await source.commit({("t", 0): 3})
            with pytest.raises(UserError, match="-1 is no offset"):
                await source.commit({("t", 0): -1})

    asyncio.run(main())


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "as-it-comes"])
def test_cancelled_at_any_await_nothing_is_lost_or_repeated(broker: AnyBroker, late: bool) -> None:
    """A consumer is read in small polls, commits, and is cancelled at its first, second ... sixth
    await, again and again wherever it stands then; somebody else reads on. All messages come, once,
    in order. The start is cancelled, too."""

    async def work(source: AsyncConsumer, seen: list[Message], goal: int) -> None:
        await source.start()
        async for message in source:
            seen.append(message)
            if len(seen) % 5 == 0:
                await source.commit()
            if len(seen) >= goal:
                return

    async def main() -> int:
        group, cancelled, k = f"cancel-{late}", 0, 0
        source = consumer(broker, group).subscribe("t", max_poll_records=3)
        seen: list[Message] = []
        while len(seen) < COUNT:
            k += 1
            if await cancelled_at(work(source, seen, COUNT), min(k, 1 + k % 6), late):
                cancelled += 1
            if not seen and k <= 2:  # it was cancelled at its start, which closes it
                await source.close()
                source = consumer(broker, group).subscribe("t", max_poll_records=3)
        await source.close()
        assert by_partition(seen) == {0: list(range(30)), 1: list(range(30))}
        assert {task for task in asyncio.all_tasks() if not task.done()} == {asyncio.current_task()}
        return cancelled

    assert asyncio.run(main()) > 10


def test_close_ends_an_iteration_and_can_be_cancelled_and_repeated(broker: AnyBroker) -> None:
    async def main() -> None:
        source = consumer(broker, "close").subscribe("t")
        await source.start()
        await take(source, COUNT)
        waiting = asyncio.create_task(anext(source))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(source.close())
        await asyncio.sleep(0)
        closing.cancel()
        await source.close()
        await source.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(StopAsyncIteration):
            await anext(source)
        with pytest.raises(ClosedError):
            await source.commit()
        with pytest.raises(ClosedError):
            await source.start()

    asyncio.run(main())


def test_batches_are_columns(broker: AnyBroker) -> None:
    async def main() -> None:
        seen: dict[int, list[int]] = {0: [], 1: []}
        async with consumer(broker, "batches").subscribe("t") as source:
            async for batch in source.batches():
                seen[batch.partition] += batch.offsets
                await source.commit()
                if sum(map(len, seen.values())) == COUNT:
                    break
            with pytest.raises(UserError, match="are mixed"):
                await anext(source)
            await source.seek("t", 0, 28)
            async for batch in source.batches():
                assert (batch.partition, *batch.offsets) == (0, 28, 29)
                await source.close()
        assert seen == {0: list(range(30)), 1: list(range(30))}

    asyncio.run(main())


def test_several_event_loops_share_a_consumer(broker: AnyBroker) -> None:
    source = consumer(broker, "loops").subscribe("t", max_poll_records=4)
    asyncio.run(source.start())
    seen = asyncio.run(take(source, 30))
    other: list[Message] = []
    thread = threading.Thread(target=lambda: other.extend(asyncio.run(take(source, 30))))
    thread.start()
    thread.join(20)
    asyncio.run(source.close())
    assert by_partition(seen + other) == {0: list(range(30)), 1: list(range(30))}


def test_a_death_in_the_background_is_raised(broker: AnyBroker) -> None:
    async def main() -> None:
        settings = {"auto_offset_reset": "none"}
        async with consumer(broker, "death", **settings).subscribe("t") as source:
            for _ in range(2):
                with pytest.raises(TallymarkError, match="no offset is stored"):
                    await anext(source)
            with pytest.raises(TallymarkError, match="no offset is stored"):
                await source.commit({("t", 0): 0})

    with pytest.raises(TallymarkError, match="no offset is stored"):
        asyncio.run(main())  # the start may say it, or what comes after


def test_the_loop_has_its_turns_while_messages_are_there(broker: AnyBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(3000):
            producer.send("many", b"%d" % number, partition=0)

    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with consumer(broker, "turns").subscribe("many", max_poll_records=3000) as source:
            await take(source, 1)
            counting = asyncio.create_task(count())
            turns = 0
            await take(source, len(source._waiting))
            counting.cancel()
        return turns

    assert asyncio.run(main()) >= 2
    assert len(read_topic(broker.bootstrap_servers, "many")) == 3000


def test_wrong_use(broker: AnyBroker) -> None:
    async def main() -> None:
        with pytest.raises(UserError, match="takes topics or a pattern"):
            consumer(broker, "g").subscribe()
        with pytest.raises(UserError, match="max_poll_records=0"):
            consumer(broker, "g").subscribe("t", max_poll_records=0)
        with pytest.raises(UserError, match="has subscribed already"):
            consumer(broker, "g").subscribe("t").subscribe("u")
        with pytest.raises(UserError, match="call subscribe"):
            await consumer(broker, "g").start()
        with pytest.raises(UserError, match="was not started"):
            await anext(consumer(broker, "g").subscribe("t"))
        with pytest.raises(TypeError, match="grup"):
            await consumer(broker, "g", grup="x").subscribe("t").start()
        await consumer(broker, "g").close()

    asyncio.run(main())
