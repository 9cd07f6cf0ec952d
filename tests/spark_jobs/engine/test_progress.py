"""A person sees how far a step is, and how long it took once it has ended."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest
from threads_left import no_thread_is_left

from tallymark.shell import progress as shell_progress
from tallymark_spark_jobs.engine import progress as module
from tallymark_spark_jobs.engine.progress import Step, Steps, described


def test_a_line_says_how_long_the_step_took() -> None:
    """The time that was printed before a step was when it began, so nothing told how long the last
    one took, nor which of them was slow."""
    lines: list[str] = []
    steps = Steps(lines.append)
    with no_thread_is_left(), steps.step("count", "counting yesterday") as step:
        assert lines == []
        time.sleep(0.15)
        step.note = "7 messages"
    (line,) = lines
    seconds, _, text = line.strip().partition(" s  ")
    assert 0.1 <= float(seconds) < 10
    assert text == "counting yesterday: 7 messages"
    assert 0.15 <= steps.seconds["count"] < 10


def test_a_repeated_step_adds_up() -> None:
    steps = Steps(lambda line: None)
    for _ in range(3):
        with steps.step("count", "counting"):
            time.sleep(0.02)
    assert set(steps.seconds) == {"count"}
    assert steps.seconds["count"] >= 0.06


def test_a_step_that_fails_has_no_line_of_a_finished_one() -> None:
    lines: list[str] = []
    steps = Steps(lines.append)
    with (
        no_thread_is_left(),
        pytest.raises(OSError, match="gone"),
        steps.step("count", "counting"),
    ):
        raise OSError("gone")
    assert lines == []
    assert "count" in steps.seconds


@pytest.mark.parametrize(
    ("step", "seconds", "text"),
    [
        (Step(10_000_000, read=4_000_000), 4.0, "4,000,000 of 10,000,000 rows, 1.00 M/s, 6 s left"),
        (Step(1_000, tasks=(3, 4)), 1.0, "750 of 1,000 rows, 0.00 M/s, 0 s left"),
        (Step(1_000), 3.0, "0 of 1,000 rows"),
        (Step(1_000, read=1_001), 1.0, "1,000 of 1,000 rows, 0.00 M/s, 0 s left"),
        (Step(None, tasks=(3, 4)), 1.0, "3 of 4 tasks"),
        (Step(None), 12.4, "12 s"),
        (Step(0), 2.0, "2 s"),
    ],
)
def test_rows_rate_and_what_is_left(step: Step, seconds: float, text: str) -> None:
    assert described(step, seconds) == text


def test_what_a_job_counts_itself_is_not_taken_back_by_tasks() -> None:
    """A stage that is added makes the share of ended tasks smaller."""
    assert Step(100, read=60, tasks=(1, 2)).done == 60
    assert Step(100, read=10, tasks=(1, 2)).done == 50


def test_where_there_is_no_terminal_a_long_step_says_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell_progress, "LINE_EVERY_S", 0.05)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    said = threading.Event()
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        said.set()

    with Steps(say).step("load", "loading page-views", rows=200) as step:
        step.read = 50
        assert said.wait(20)
        assert lines[0].strip().startswith("loading page-views: 25 %, 50 of 200 rows, ")
    assert lines[-1].endswith(" s  loading page-views")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_that_goes_when_the_step_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    lines: list[str] = []
    with no_thread_is_left(), Steps(lines.append).step("load", "loading", rows=200) as step:
        step.read = 50
        deadline = time.monotonic() + 20
        while "50 of 200 rows" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert "50 of 200 rows" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue().rpartition("rows")[2]  # the bar's line is erased
    assert len(lines) == 1
