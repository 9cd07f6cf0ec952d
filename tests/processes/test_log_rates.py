"""What a process writes to its log is bounded, place by place in the code."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from tallymark.processes.json_log import JsonLines
from tallymark.processes.log_rates import BURST, MAX_TEXT, PlaceRates, shortened


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written(clock: Clock) -> io.StringIO:
    """What the logger ``rated`` writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(PlaceRates(clock))
    log = logging.getLogger("rated")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    return stream


LOG = logging.getLogger("rated")


def flood(count: int, address: str = "x") -> None:
    for number in range(count):
        LOG.warning("%s:%d sent nonsense", address, number)


@pytest.mark.slow
def test_a_place_that_is_flooded_is_cut_and_others_are_not(
    written: io.StringIO, clock: Clock
) -> None:
    """Lines were rated by the address that caused them: who came from a thousand addresses of
    127.0.0.0/8, or found a line that nobody had rated, filled the disk."""
    flood(20_000)
    LOG.error("the disk failed")
    lines = written.getvalue().splitlines()
    assert len(lines) == BURST + 1
    assert lines[-1] == "the disk failed"
    clock.now += 10
    flood(100)
    lines = written.getvalue().splitlines()[BURST + 1 :]
    assert lines[0] == f"x:0 sent nonsense; and {20_000 - BURST} more like it left out"
    assert lines[1] == "x:1 sent nonsense"
    assert len(lines) == 10


@pytest.mark.slow
def test_two_hours_of_garbage_at_one_place(written: io.StringIO, clock: Clock) -> None:
    for _ in range(2 * 60):
        clock.now += 60
        flood(100)
    assert len(written.getvalue()) < 200_000_000 / 20 / 12, "of a day it would fill ten megabytes"


def test_a_long_line_and_a_long_error_are_shortened(written: io.StringIO) -> None:
    """A request of a megabyte stood in the line that refused it."""
    LOG.warning("refused: %r", "y" * 1_000_000)
    assert len(written.getvalue()) < MAX_TEXT + 200
    try:
        raise ValueError("z" * 1_000_000)
    except ValueError:
        record = LOG.makeRecord("rated", logging.ERROR, "f", 1, "no", (), sys.exc_info())
    told = json.loads(JsonLines().format(record))
    assert len(told["error"]) < MAX_TEXT + 200
    assert told["error"].endswith("z" * 100)
    assert "Traceback" in told["error"]


def test_what_is_short_stays_as_it_is() -> None:
    assert shortened("x" * MAX_TEXT) == "x" * MAX_TEXT
