"""A stop ends, whatever does not: each part has a bound, and the log says what was slow."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tallymark.broker import stopping
from tallymark.broker.stopping import StopClock
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles


def test_what_does_not_end_is_left_when_time_is_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing bounded the parts of a stop together: one that waited for a silent peer held up the
    process until an operator killed it."""

    monkeypatch.setattr(stopping, "LEAST", 0.0)

    async def story() -> None:
        clock = StopClock(0.02)
        cancelled = asyncio.Event()

        async def stuck() -> None:
            while True:  # also where it does not hear that it is cancelled
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if cancelled.is_set():
                        raise
                    cancelled.set()

        assert not await clock.end("peers", stuck())
        await cancelled.wait()
        assert clock.left == ["peers"]
        ended: list[int] = []

        async def quick() -> None:
            ended.append(1)

        monkeypatch.setattr(stopping, "LEAST", 30.0)  # time is up, each part has a moment still
        assert await clock.end("files", quick())
        assert ended == [1]

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert "peers had not ended" in caplog.text


def test_what_a_part_raises_is_raised() -> None:
    async def story() -> None:
        async def fails() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await StopClock(1).end("part", fails())

    asyncio.run(story())


@pytest.mark.parametrize(("stuck", "is_clean"), [(True, False), (False, True)])
def test_a_broker_with_a_part_that_never_ends_stops_without_the_marker_of_a_clean_stop(
    tmp_path: Path, stuck: bool, is_clean: bool
) -> None:
    """That part may still write: the next start has to check the logs."""
    files = MemoryFiles()
    broker = BrokerThread(tmp_path, files=files, shutdown_timeout_ms=1000)
    broker.start()
    found = broker.broker
    assert found is not None

    async def never() -> None:
        if stuck:
            await asyncio.Event().wait()

    found._tasks.push_async_callback(never)
    broker.stop()
    folder = next(iter(found.settings.log_dirs))
    assert (".kafka_cleanshutdown" in files.names(str(folder))) is is_clean
    again = BrokerThread(tmp_path, files=files)
    again.start()
    again.stop()
