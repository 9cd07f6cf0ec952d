"""Batches that a thread makes ready, on a partition that goes, fails or is closed meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from exposure import exposed

from tallymark.broker.partitions import partition as partition_module
from tallymark.broker.partitions.append_queue import AppendQueue
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.results import AppendInfo
from tallymark.log.validation.preparation import prepare
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

BATCH = encode_batch([(b"k", bytes(20_000), (), 1)])


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, no batch is ready."""
    opened = threading.Event()

    def slow(*args: Any, **more: Any) -> Any:
        assert opened.wait(30)
        return prepare(*args, **more)

    monkeypatch.setattr(partition_module, "prepare", slow)
    yield opened
    opened.set()


def led(preparers: ThreadPoolExecutor | None = None, *, shown_late: bool = False) -> Partition:
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    config = LogConfig(codec="gzip", flush_before_expose=shown_late)
    log = Log.open(files, "/d/t-0", config, clean=False, now_ms=0)
    return Partition("t", 0, uuid.UUID(int=1), log, 0, preparers=preparers)


def put(partition: Partition) -> asyncio.Task[AppendInfo | KafkaError]:
    task = partition.append_in_turn(bytearray(BATCH), 0)
    assert task is not None
    return task


def name_of(outcome: object) -> str:
    return outcome.name if isinstance(outcome, KafkaError) else "appended"


@pytest.mark.parametrize(
    ("deleted", "error"), [(False, "NOT_LEADER_OR_FOLLOWER"), (True, "UNKNOWN_TOPIC_OR_PARTITION")]
)
def test_batches_under_way_are_not_appended_where_the_partition_is_gone(
    gate: threading.Event, deleted: bool, error: str
) -> None:
    """A partition went to another broker while two large batches were being compressed: they were
    appended to the log left behind and acknowledged, so their producer lost them. Where the topic
    was deleted the answer was KAFKA_STORAGE_ERROR, and people looked for a broken disk."""

    async def story() -> Partition:
        partition = led()
        under_way = [put(partition), put(partition)]
        await asyncio.sleep(0)
        partition.withdraw(deleted=deleted)
        if deleted:
            partition.log.close()
        gate.set()
        assert [name_of(await each) for each in under_way] == [error, error]
        with pytest.raises(KafkaError, match=error):
            partition.append_in_turn(BATCH, 0)
        return partition

    assert asyncio.run(story()).log.end_offset == 0


def test_nobody_waits_to_see_records_of_a_partition_that_is_gone() -> None:
    """With ``flush.before.expose`` a producer whose batch was appended as its partition went waited
    for a flush that never came, until its own timeout."""

    async def story() -> None:
        partition = led(shown_late=True)
        partition.append(bytearray(BATCH), 0)
        partition.withdraw()
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            exposed(partition, 0)

    asyncio.run(story())


def test_a_fault_of_ours_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    """A codec's library raised something of its own: the whole request went without answers, also
    those of the partitions that had taken their batches."""

    def breaks() -> None:
        raise ZeroDivisionError("in a library")

    async def story() -> list[str]:
        queue = AppendQueue()
        tasks = [queue.put(breaks, id), queue.put(int, lambda _: breaks()), queue.put(int, str)]
        return [name_of(await each) for each in tasks]

    with caplog.at_level(logging.ERROR, "tallymark.broker.partitions.append_queue"):
        unknown = "UNKNOWN_SERVER_ERROR"
        assert asyncio.run(story()) == [unknown, unknown, "appended"]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_closed_partition_has_nothing_under_way(gate: threading.Event) -> None:
    """A broker stopped while large batches were being compressed: they were appended while its
    logs were flushed and marked as cleanly closed."""

    async def story() -> Partition:
        with ThreadPoolExecutor(1) as preparers:
            partition = led(preparers)
            under_way = [put(partition), put(partition)]
            await asyncio.sleep(0)
            closing = asyncio.create_task(partition.close())
            await asyncio.sleep(0)
            assert not closing.done()
            gate.set()
            await closing
            assert all(each.done() for each in under_way)
            assert {name_of(each.result()) for each in under_way} == {"NOT_LEADER_OR_FOLLOWER"}
            late = partition.append_in_turn
        with pytest.raises(KafkaError, match="the broker stops"):
            late(BATCH, 0)
        return partition

    assert asyncio.run(story()).log.end_offset == 0


def test_batches_are_made_ready_by_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches from cold files, log-ins and checkpoints waited behind producers' batches: all shared
    the few threads of the event loop."""
    seen: list[str] = []

    def noted(*args: Any, **more: Any) -> Any:
        seen.append(threading.current_thread().name)
        return prepare(*args, **more)

    monkeypatch.setattr(partition_module, "prepare", noted)

    async def story() -> None:
        with ThreadPoolExecutor(2, "preparers") as preparers:
            assert name_of(await put(led(preparers))) == "appended"

    asyncio.run(story())
    assert [name.startswith("preparers") for name in seen] == [True]


def test_a_queue_that_refuses_asks_no_thread() -> None:
    async def story() -> object:
        queue = AppendQueue()
        queue.refuse(CODES["NOT_LEADER_OR_FOLLOWER"], "t-0 is gone")
        return await queue.put(lambda: pytest.fail("prepared"), id)

    assert name_of(asyncio.run(story())) == "NOT_LEADER_OR_FOLLOWER"
