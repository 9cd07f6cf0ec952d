"""Two copiers as processes, and a broker, that are killed: the output is the input, in order, once.
The short twin of ``soak/test_copiers_under_faults.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_process import BrokerProcess
from copy_story import TARGET, CopyStory, create_topics, problems
from left_open import leave_open

pytestmark = pytest.mark.process
QUICK = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500}


def test_copiers_and_the_broker_are_killed(tmp_path: Path) -> None:
    """With a producer that dies in the middle of a transaction and never comes back: committed
    readers wait at it until its time is up."""
    with BrokerProcess(tmp_path, **QUICK) as broker:
        create_topics(broker.address, replicas=1)
        leave_open(broker.address, "dead", TARGET, timeout_ms=1000)
        with CopyStory(
            tmp_path, broker.address, 2000, protocol=2, max_records=25, aborts=0.1
        ) as story:
            story.until(0.2)
            story.copiers[0].kill()
            broker.kill()
            broker.start()
            story.copiers[0].start()
            story.finish()
        assert "Traceback" not in broker.log.read_text(errors="replace")


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 3], "3 where 2 belongs"),
        ([0, 1, 1, 2], "1 where 2 belongs"),
        ([0, 1], "2 records"),
        ([0, 2, 1], "2 where 1 belongs"),
    ],
)
def test_what_is_wrong_is_said(numbers: list[int], problem: str) -> None:
    read = [list(enumerate(numbers)), [(0, 0), (1, 1), (2, 2)]]
    assert any(problem in line for line in problems(read, 6)), problems(read, 6)
