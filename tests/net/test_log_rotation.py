"""Logs are set aside by size while they are written, and kept by number."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tallymark.log_rotation import KEEP, copied
from tallymark.net.web import access_log
from tallymark.net.web.access_log import AccessLogFile, combined_line
from tallymark.processes.supervisor import child
from tallymark.processes.supervisor.child import ChildProcess
from tallymark.processes.supervisor.plan import ProcessSpec


def test_an_access_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An access log had one line for each request and no end: a day of requests in a loop filled
    the disk that the stores and logs were on."""
    monkeypatch.setattr(access_log, "LOG_BYTES", 100_000)
    monkeypatch.setattr(access_log, "_LOOK_BYTES", 1000)
    log = AccessLogFile(tmp_path / "access.log")
    for number in range(20_000):
        log(f"{number:06} " + "x" * 93)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["access.log"] + [
        f"access.log.{number}" for number in range(1, KEEP + 1)
    ]
    assert sum(file.stat().st_size for file in files) < (KEEP + 1) * 110_000
    newest = [
        int(line[:6])
        for name in ("access.log.2", "access.log.1", "access.log")
        for line in (tmp_path / name).read_text().splitlines()
    ]
    assert newest == list(range(newest[0], 20_000))  # none is missing, all are in order


def test_two_processes_share_an_access_log_that_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "LOG_BYTES", 10_000)
    monkeypatch.setattr(access_log, "_LOOK_BYTES", 100)
    first, second = AccessLogFile(tmp_path / "a.log"), AccessLogFile(tmp_path / "a.log")
    for number in range(300):
        (first, second)[number % 2](f"{number:04} " + "x" * 94)
    first.close()
    second.close()
    found = [int(line[:4]) for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(found) == list(range(300))


def test_a_line_of_an_access_log_is_bounded_in_every_field() -> None:
    """The method and the version of a request were written as they came."""
    long = b"\xff" * 1_000_000
    scope = {
        "type": "http",
        "method": "M" * 1_000_000,
        "http_version": '1.1"\n' * 100_000,
        "raw_path": b"/" + long,
        "query_string": long,
        "path": "/",
        "client": ("9" * 100_000, 1),
        "headers": [(b"referer", long), (b"user-agent", long), (b"authorization", b"Basic eA==")],
    }
    line = combined_line(scope, 0.0, 200, 1)
    assert len(line) < 24_000
    assert "\n" not in line


def test_output_is_no_file_to_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--access-log /dev/stdout`` is how containers have it."""
    monkeypatch.setattr(access_log, "_LOOK_BYTES", 1)
    code = (
        "from pathlib import Path; from tallymark.net.web.access_log import AccessLogFile;"
        "log = AccessLogFile(Path('/dev/stdout')); log('one'); log('two')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "one\ntwo\n"


def test_a_processes_log_is_set_aside_while_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a process was looked at when it was started, and grew for as long as it lived:
    also what a JVM or a library writes past our logging has to end."""
    monkeypatch.setattr(child, "LOG_BYTES", 50_000)
    process = ChildProcess(ProcessSpec("one", ("--version",)), tmp_path / "t.toml", tmp_path)
    assert process.wait(60)
    with process.log_path.open("ab") as output:  # as the process has it
        for number in range(3000):
            os.write(output.fileno(), b"%06d " % number + b"x" * 92 + b"\n")
            if number % 100 == 99:
                process.rotate_log()
        os.write(output.fileno(), b"2026-01-01T00:00:00.000Z INFO broker: ready 1:2\n")
    assert process.is_ready()  # though the log is shorter than it was
    files = [path for path in tmp_path.iterdir() if path.name.startswith("one.log")]
    assert len(files) == KEEP + 1
    assert sum(path.stat().st_size for path in files) < (KEEP + 1) * 70_000
    kept = b"".join((tmp_path / f"one.log.{number}").read_bytes() for number in (2, 1))
    numbers = [int(line[:6]) for line in kept.splitlines()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_copy_that_fails_leaves_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "one.log"
    log.write_text("all of it")
    monkeypatch.setattr(
        shutil, "copyfileobj", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(OSError, match="full"):
        copied(log)
    assert log.read_text() == "all of it"
    assert [path.name for path in tmp_path.iterdir()] == ["one.log"]
