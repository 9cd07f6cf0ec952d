"""The threads of a broker in this process, beside a test that leaves none behind."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from threads_left import BROKER_POOLS, no_thread_is_left

import tallymark.broker
from tallymark.testing import BrokerThread

_POOL = re.compile(r'threads\(.*, "([^"]+)"\)')


@pytest.mark.process
def test_a_pool_that_starts_during_a_test_is_the_brokers(tmp_path: Path) -> None:
    """The high watermarks are saved five seconds after the start, by a thread that did not run
    before: a test of the consumer failed now and then, for a thread that was not the consumer's."""
    with BrokerThread(tmp_path, replica_high_watermark_checkpoint_interval_ms=100) as broker:
        assert broker.bootstrap_servers
        before = {t.name for t in threading.enumerate()}
        with no_thread_is_left():
            met = threading.Event()
            while not any(name.startswith("tallymark-upkeep") for name in _names()):
                met.wait(0.01)
        assert before <= _names()


def test_each_pool_is_known_by_its_name() -> None:
    root = Path(tallymark.broker.__path__[0])
    found = {name for file in root.rglob("*.py") for name in _POOL.findall(file.read_text())}
    assert found == set(BROKER_POOLS)


def test_a_thread_that_is_left_is_named_with_its_place() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="forgotten")
    try:
        with (
            pytest.raises(AssertionError, match=r"forgotten:\n(?s:.*)self\._cond"),
            no_thread_is_left(seconds=0.1),
        ):
            thread.start()
    finally:
        end.set()
        thread.join()


def _names() -> set[str]:
    return {t.name for t in threading.enumerate()}
