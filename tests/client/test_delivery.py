"""A Delivery is made without the insides of its base class; these hold that it behaves like it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from itertools import repeat

import pytest

from tallymark.client.delivery import Delivery, RecordMetadata, settle

HERE = RecordMetadata("t", 0, 7, 1)


def test_settled_before_anybody_looks() -> None:
    good, bad = Delivery(), Delivery()
    settle([good], [HERE])
    settle([bad], repeat(ValueError("no")))
    assert good.done()
    assert good.result() == HERE
    assert good.exception() is None
    assert isinstance(bad.exception(), ValueError)
    with pytest.raises(ValueError, match="no"):
        bad.result()


def test_settled_while_a_thread_waits() -> None:
    delivery = Delivery()
    timer = threading.Timer(0.02, settle, ([delivery], [HERE]))
    timer.start()
    assert delivery.result(5) == HERE
    timer.join()


def test_waiting_can_time_out_and_go_on() -> None:
    delivery = Delivery()
    with pytest.raises(TimeoutError):
        delivery.result(0.01)
    assert not delivery.done()
    settle([delivery], [HERE])
    assert delivery.result() == HERE


def test_callbacks_come_before_and_after() -> None:
    seen: list[str] = []
    delivery = Delivery()
    delivery.add_done_callback(lambda d: seen.append("early"))
    settle([delivery], [HERE])
    delivery.add_done_callback(lambda d: seen.append("late"))
    assert seen == ["early", "late"]


def test_wait_and_as_completed_take_them() -> None:
    first, second = Delivery(), Delivery()
    settle([first], [HERE])
    done, pending = concurrent.futures.wait(
        [first, second], timeout=0.01, return_when=concurrent.futures.FIRST_COMPLETED
    )
    assert (done, pending) == ({first}, {second})
    timer = threading.Timer(0.02, settle, ([second], [HERE]))
    timer.start()
    assert set(concurrent.futures.as_completed([first, second], timeout=5)) == {first, second}
    timer.join()


def test_await_in_a_coroutine_and_cancelling_the_wait_only() -> None:
    async def scenario() -> None:
        delivery = Delivery()
        asyncio.get_running_loop().call_later(0.02, settle, [delivery], [HERE])
        assert await delivery == HERE
        other = Delivery()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other, 0.01)
        settle([other], [HERE])
        assert other.result() == HERE

    asyncio.run(scenario())


def test_it_cannot_be_cancelled() -> None:
    delivery = Delivery()
    assert delivery.cancel() is False
    settle([delivery], [HERE])
    assert not delivery.cancelled()
    assert repr(delivery)
    with pytest.raises(AttributeError):
        delivery.nothing  # noqa: B018


def test_one_that_its_owner_has_set_stops_no_other() -> None:
    first, second = Delivery(), Delivery()
    first.set_result(HERE)
    second.add_done_callback(lambda d: None)
    settle([first, second], repeat(ValueError("late")))
    assert first.result() == HERE
    assert isinstance(second.exception(), ValueError)


def test_many_threads_look_while_it_is_settled() -> None:
    deliveries = [Delivery() for _ in range(500)]
    got: list[RecordMetadata] = []

    def wait() -> None:
        got.extend(delivery.result(5) for delivery in deliveries)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for start in range(0, 500, 50):
        settle(deliveries[start : start + 50], repeat(HERE))
        time.sleep(0.0005)
    for thread in threads:
        thread.join()
    assert got == [HERE] * 2000
