from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from tallymark.client.core.io_thread import IoThread
from tallymark.errors import ClosedError, LocalProtocolError, TimedOutError


async def value(result: int, after: float = 0.0) -> int:
    await asyncio.sleep(after)
    return result


def test_work_runs_and_its_errors_come_through() -> None:
    async def fail() -> None:
        raise TimeoutError("the work's own")

    io = IoThread("io")
    assert io.run(value(5)) == 5
    with pytest.raises(TimeoutError, match="the work's own"):
        io.run(fail(), 5)
    io.stop()


def test_a_deadline_cancels_the_work_and_names_it() -> None:
    io = IoThread("io")
    with pytest.raises(TimedOutError, match=r"the errand did not end within 0\.01 s"):
        io.run(value(5, after=10), 0.01, "the errand")
    assert io.run(value(6)) == 6
    io.stop()


def test_stopping_cuts_off_what_runs() -> None:
    io = IoThread("io")
    timer = threading.Timer(0.05, io.stop)
    timer.start()
    with pytest.raises(ClosedError, match="the errand was cut off"):
        io.run(value(1, after=60), 60, "the errand")
    timer.join()
    io.stop()
    with pytest.raises(ClosedError):
        io.run(value(1))


def test_waiting_for_oneself_is_refused() -> None:
    io = IoThread("io")

    async def nested() -> int:
        return io.run(value(1), what="a nested call")

    with pytest.raises(LocalProtocolError, match="a nested call cannot be waited for"):
        io.run(nested())
    io.stop()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_that_the_thread_is_not_its_own() -> None:
    io = IoThread("io")
    child = os.fork()
    if child == 0:
        try:
            io.run(value(1))
        except ClosedError as error:
            os._exit(0 if "parent process" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    io.stop()


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = (
        "import sys, tallymark; assert 'asyncio' not in sys.modules; "
        "from tallymark import Producer; assert 'kazoo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
