"""A Delivery is two slots that point at the fate of a batch; these hold that it is a future."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time

import pytest

from tallymark.client.producing.batch_delivery import BatchDelivery, BatchMetadata, OffsetRange
from tallymark.client.producing.delivery import Delivery, ProduceResult, RecordMetadata
from tallymark.errors import CODES, KafkaError

HERE = RecordMetadata("t", 0, 7, 1)


def result(count: int = 1, partition: int = 0) -> ProduceResult:
    return ProduceResult("t", partition, [1] * count)


def one() -> tuple[ProduceResult, Delivery]:
    batch = result()
    return batch, Delivery(batch, 0)


def test_settled_before_anybody_looks() -> None:
    good, bad = result(3), result()
    good.acknowledged(5)
    bad.failed(ValueError("no"))
    delivery = Delivery(good, 2)
    assert delivery.done()
    assert not delivery.running()
    assert delivery.result() == HERE
    assert delivery.exception() is None
    assert isinstance(Delivery(bad, 0).exception(), ValueError)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            Delivery(bad, 0).result()


def test_the_broker_may_not_say_where_and_may_put_its_own_time() -> None:
    unknown, appended = result(2), result(2)
    unknown.acknowledged(-1)
    appended.acknowledged(3, append_time=99)
    assert Delivery(unknown, 1).result() == RecordMetadata("t", 0, -1, 1)
    assert Delivery(appended, 1).result() == RecordMetadata("t", 0, 4, 99)


def test_settled_while_a_thread_waits() -> None:
    batch, delivery = one()
    timer = threading.Timer(0.02, batch.acknowledged, (7,))
    timer.start()
    assert delivery.result(30) == HERE
    timer.join()


def test_waiting_can_time_out_and_go_on() -> None:
    batch, delivery = one()
    with pytest.raises(TimeoutError):
        delivery.result(0.01)
    assert not delivery.done()
    batch.acknowledged(7)
    assert delivery.result() == HERE


def test_callbacks_come_before_and_after_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    batch, delivery = one()
    delivery.add_done_callback(lambda d: seen.append("early"))
    delivery.add_done_callback(lambda d: seen[5])
    delivery.add_done_callback(lambda d: seen.append("behind"))
    batch.acknowledged(7)
    delivery.add_done_callback(lambda d: seen.append("late"))
    assert seen == ["early", "behind", "late"]
    assert "IndexError" in caplog.text


def test_wait_and_as_completed_take_their_futures() -> None:
    (a, first), (b, second) = one(), one()
    a.acknowledged(7)
    futures = [first.future(), second.future()]
    done, pending = concurrent.futures.wait(
        futures, timeout=0.01, return_when=concurrent.futures.FIRST_COMPLETED
    )
    assert (done, pending) == ({futures[0]}, {futures[1]})
    b.failed(ValueError("no"))
    assert set(concurrent.futures.as_completed(futures, timeout=5)) == set(futures)
    assert isinstance(futures[1].exception(), ValueError)


def test_await_in_a_coroutine_and_cancelling_the_wait_only() -> None:
    async def scenario() -> None:
        batch, delivery = one()
        asyncio.get_running_loop().call_later(0.02, batch.acknowledged, 7)
        assert await delivery == HERE
        assert await delivery == HERE  # ended already
        batch, other = one()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other, 0.01)
        batch.acknowledged(7)
        assert other.result() == HERE

    asyncio.run(scenario())


def test_it_cannot_be_cancelled_and_says_what_it_is() -> None:
    batch, delivery = one()
    assert delivery.cancel() is False
    assert "pending" in repr(delivery)
    batch.acknowledged(7)
    assert not delivery.cancelled()
    assert "offset=7" in repr(delivery)


def test_a_batch_that_is_split_ends_in_parts() -> None:
    """Too large for the broker, it went on as two halves, and one of these as two again."""
    batch = result(4)
    deliveries = [Delivery(batch, index) for index in range(4)]
    seen: list[int] = []
    for index, delivery in enumerate(deliveries):
        delivery.add_done_callback(lambda d, index=index: seen.append(index))  # type: ignore[misc] # its default
    whole = BatchDelivery("t", [(batch, 1, 3)])
    got: list[RecordMetadata] = []
    waiter = threading.Thread(target=lambda: got.append(deliveries[3].result(30)))
    waiter.start()
    left, right = batch.split(2)
    middle, last = right.split(1)
    last.acknowledged(30)
    waiter.join()
    assert got == [RecordMetadata("t", 0, 30, 1)]
    assert seen == [3]
    left.acknowledged(10)
    assert [delivery.done() for delivery in deliveries] == [True, True, False, True]
    assert not whole.done()
    middle.failed(KafkaError(CODES["MESSAGE_TOO_LARGE"], "t-0"))
    assert seen == [3, 0, 1, 2]
    assert deliveries[1].result().offset == 11
    with pytest.raises(KafkaError, match=r"1 of 3 records failed; t-0: MESSAGE_TOO_LARGE"):
        whole.result(0)


def test_many_threads_look_while_it_is_settled() -> None:
    batches = [result(50) for _ in range(10)]
    got: list[RecordMetadata] = []

    def wait() -> None:
        got.extend(Delivery(batch, index).result(30) for batch in batches for index in range(50))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number, batch in enumerate(batches):
        batch.acknowledged(50 * number)
        time.sleep(0.0005)
    for thread in threads:
        thread.join()
    assert sorted(found.offset for found in got) == sorted([*range(500)] * 4)


# --- many records at once -------------------------------------------------------------------------


def test_one_future_for_many_says_which_offsets_they_have() -> None:
    first, second, other = result(3), result(2), result(2, partition=1)
    whole = BatchDelivery("t", [(first, 1, 2), (other, 0, 2), (second, 0, 2)])
    ended: list[BatchDelivery] = []
    whole.add_done_callback(ended.append)
    with pytest.raises(TimeoutError, match="still under way"):
        whole.result(0.01)
    second.acknowledged(13)
    first.acknowledged(10)
    assert not ended
    other.acknowledged(-1)
    assert ended == [whole]
    assert len(whole) == 6
    assert whole.result() == BatchMetadata(
        "t", 6, (OffsetRange(0, 11, 14, 4), OffsetRange(1, -1, -1, 2))
    )
    assert whole.future().result(0) == whole.result()


def test_the_first_error_says_how_many_failed() -> None:
    good, bad = result(3), result(2)
    whole = BatchDelivery("t", [(good, 0, 3), (bad, 0, 2)])
    told: list[Exception | None] = []
    whole.tell(lambda error, metadata: told.append(error))
    good.acknowledged(0)
    bad.failed(KafkaError(CODES["INVALID_RECORD"], "t-0"))
    error = whole.exception(0)
    assert isinstance(error, KafkaError)
    assert error.code == CODES["INVALID_RECORD"]
    assert str(error).startswith("2 of 5 records failed; t-0")
    assert str(told[0]) == str(error)


def test_nothing_at_all_has_ended_well() -> None:
    whole = BatchDelivery("t", [])
    assert whole.done()
    assert whole.result(0) == BatchMetadata("t", 0, ())


def test_many_can_be_awaited() -> None:
    async def scenario() -> None:
        batch = result(2)
        whole = BatchDelivery("t", [(batch, 0, 2)])
        asyncio.get_running_loop().call_later(0.01, batch.acknowledged, 4)
        assert (await whole).ranges == (OffsetRange(0, 4, 5, 2),)

    asyncio.run(scenario())
