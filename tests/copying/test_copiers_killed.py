"""Two copiers as processes, and a broker, that are killed: the output is the input, in order, once.
The short twin of ``soak/test_copiers_under_faults.py``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from copied import transactions_of
from copies_judged import SOURCE, TARGET, Copied, problems
from copy_story import CopyStory, create_topics
from left_open import leave_open
from operations import Operation

pytestmark = pytest.mark.process
QUICK = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500}


@pytest.mark.soak
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


def copied(numbers: list[int], transaction: str = "t", at: float = 2.0) -> list[Copied]:
    """Records of a partition, read at this time."""
    return [Copied(offset, f"{number}|{transaction}", at) for offset, number in enumerate(numbers)]


def journal(*lines: object, read: tuple[int, ...] = (0, 1, 2)) -> list[Operation]:
    """One transaction at time 1 which copies the numbers 0 to 2 of each of two partitions, read at
    these offsets; then ``lines``. What stands behind the last one is torn."""
    source = {f"{SOURCE}-{one}": [[f"{n}", n] for n in read] for one in range(2)}
    written = {f"{TARGET}-{one}": [[f"{n}|t", n] for n in range(3)] for one in range(2)}
    asked = (["open", 1], ["ending", 1.0, 1, source, written])
    texts = [json.dumps(line) for line in (*asked, *lines)]
    return transactions_of("copier", ["", *texts, '["commit'])


WELL = journal(["committed", 1.5, 1])


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 3], "3 where 2 belongs"),
        ([0, 1, 1, 2], "1 where 2 belongs"),
        ([0, 1], "2 records"),
        ([0, 1], "unseen: output-0:2|t"),
        ([0, 2, 1], "2 where 1 belongs"),
        ([0, 2, 1], "inconsistent-offsets: output-0/1"),
    ],
)
def test_what_is_wrong_is_said(numbers: list[int], problem: str) -> None:
    read = [copied(numbers), copied([0, 1, 2])]
    found = problems(read, 6, WELL)
    assert any(problem in line for line in found), found


@pytest.mark.parametrize(
    ("asked", "transaction", "at", "problem"),
    [
        (WELL, "t", 0.5, "precommitted-read"),
        (journal(), "t", 0.5, "precommitted-read"),
        (journal(["aborted", 1.5, 1]), "t", 2.0, "aborted-read"),
        (WELL, "killed", 2.0, "aborted-read"),
        (WELL, "t", 2.0, ""),
        (journal(), "t", 2.0, ""),  # killed behind the question: committed or not, but as a whole
        (journal(["in doubt", 1.5, 1]), "t", 2.0, ""),
    ],
)
def test_a_read_is_held_against_its_transaction(
    asked: list[Operation], transaction: str, at: float, problem: str
) -> None:
    read = [copied([0, 1, 2], transaction, at), copied([0, 1, 2], transaction, at)]
    found = problems(read, 6, asked)
    assert any(problem in line for line in found) if problem else not found, found


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        ((0, 2, 1), "int-nonmonotonic-poll"),
        ((0, 1), "unseen: input-0:2"),
        ((0, 1, 2, 7), "aborted-read: input-0:7"),  # which was not published
    ],
)
def test_what_a_transaction_has_read_is_judged(read: tuple[int, ...], problem: str) -> None:
    """A journal had what was written only, so copiers could have read anything."""
    found = problems(
        [copied([0, 1, 2]), copied([0, 1, 2])], 6, journal(["committed", 1.5, 1], read=read)
    )
    assert any(problem in line for line in found), found
