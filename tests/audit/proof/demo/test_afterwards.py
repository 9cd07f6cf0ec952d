"""What the demo says on its way and at its end."""

from __future__ import annotations

import io
import time
from pathlib import Path

from rich.console import Console

from tallymark_audit.proof.demo.afterwards import last_lines
from tallymark_audit.proof.demo.result import lost_windows
from tallymark_audit.proof.harness.narrate import Narrator

CONSOLE = "http://127.0.0.1:8080"
LOST = [("dc1-to-aggregate", "http_access", 1_700_000_000_000 + 5_000 * n) for n in range(6)]


def test_the_last_line_leads_to_the_lost_window() -> None:
    """The demo ended with ``dashboards: http://127.0.0.1:8080``: a reader of that line knew neither
    which settings to set nor in which windows messages had been lost."""
    lines = last_lines(
        Path("/data/demo.toml"), ".venv/bin/tallymark", CONSOLE, LOST[:1], stays=True
    )
    assert "  export TALLYMARK_SETTINGS=/data/demo.toml" in lines
    commands = [line.strip() for line in lines if line.startswith("  .venv/bin/tallymark ")]
    assert len(commands) == 3
    assert commands[1].endswith("evidence dc1-to-aggregate http_access 2023-11-14T22:13:20Z")
    assert lines[-1] == (
        f"lost: {CONSOLE}/window?edge=dc1-to-aggregate&topic=http_access&window=1700000000000"
    )


def test_many_lost_windows_do_not_push_the_commands_away() -> None:
    lines = last_lines(Path("/d"), "tallymark", CONSOLE, LOST, stays=True)
    assert sum(line.startswith("lost: ") for line in lines) == 4
    assert f"and 2 more: {CONSOLE}/" in lines


def test_a_stack_that_has_stopped_is_looked_at_by_serving_what_it_left() -> None:
    lines = last_lines(Path("/d"), "tallymark", CONSOLE, LOST[:1], stays=False)
    assert "  tallymark dashboards" in lines
    assert not any("status" in line or "consume" in line for line in lines)


def test_without_a_fault_nothing_is_called_lost() -> None:
    lines = last_lines(Path("/d"), "tallymark", CONSOLE, [], stays=False)
    assert lines[-1] == f"nothing was lost: {CONSOLE}/"


def test_windows_that_miss_nothing_are_not_lost() -> None:
    verdicts = [
        {"edge": "a", "topic": "t", "window": 5, "cells": [{"missing": []}, {"missing": [1, 2]}]},
        {"edge": "a", "topic": "t", "window": 10, "cells": [{"missing": []}]},
    ]
    assert lost_windows({"verdicts": verdicts}) == [("a", "t", 5)]


def test_a_long_step_says_how_long_it_takes_and_goes_on_saying_so_into_a_file() -> None:
    """A step of half a minute printed nothing until it was over; on a slow machine people took the
    demo for dead and stopped it."""
    written = io.StringIO()
    narrator = Narrator(Console(file=written), beat=0.02)
    with narrator.step("counting", 25):
        while written.getvalue().count("so far") < 2:
            time.sleep(0.01)
    lines = written.getvalue().splitlines()
    assert lines[0] == " 1. counting (about 25 s)"
    assert lines[1].endswith("s so far")
    assert lines[-1].endswith(" s")
