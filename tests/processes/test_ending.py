"""``tallymark down``: a supervisor is ended by another process, and only ours."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.processes.supervisor import ending
from tallymark.processes.supervisor.ending import end_stack, supervisor_pid
from tallymark.processes.supervisor.run import control_file, lock_file

HOLDS = """
import signal, sys
from pathlib import Path
from tallymark.deployment import Deployment
from tallymark.processes.process import stop_signals
from tallymark.processes.supervisor import run

run.plan = lambda _: ()
supervisor = run.Supervisor(Deployment(data_dir=Path(sys.argv[1])), lambda *_: None)
with stop_signals() as stopped:
    supervisor.start()
    print("runs", flush=True)
    while not stopped.wait(0.02) or len(sys.argv) > 2:
        supervisor.step()
    supervisor.stop()
"""
"""A supervisor without processes; with a second argument it takes no notice of signals."""


@contextmanager
def supervisor(folder: Path, *deaf: str) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", HOLDS, str(folder), *deaf]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n"
            yield process
        finally:
            process.kill()


def end(folder: Path, within: float = 60) -> int | None:
    return end_stack(Deployment(data_dir=folder), within, lambda _: None)


@pytest.mark.process
def test_a_stack_in_the_background_is_ended(tmp_path: Path) -> None:
    """``nohup tallymark up &`` could only be ended by the process id of ``up``, which its log does
    not have: ``tallymark stop`` answered "Did you mean topics?"."""
    with supervisor(tmp_path / "a") as process, supervisor(tmp_path / "b") as other:
        assert end(tmp_path / "a") == process.pid
        assert process.wait(30) == 0, "in order"
        assert other.poll() is None
        assert end(tmp_path / "a") is None


@pytest.mark.process
def test_one_that_ctrl_z_has_suspended_is_ended(tmp_path: Path) -> None:
    with supervisor(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        assert end(tmp_path) == process.pid
        assert process.wait(30) == 0


@pytest.mark.process
def test_one_that_does_not_end_is_said_to_run_still(tmp_path: Path) -> None:
    with supervisor(tmp_path, "deaf") as process:
        with pytest.raises(UserError, match=r"has not ended in 0\.1 s") as slow:
            end(tmp_path, within=0.1)
        assert f"kill -9 {process.pid}" in slow.value.do
        assert process.poll() is None


def test_nothing_runs(tmp_path: Path) -> None:
    assert end(tmp_path) is None
    assert list(tmp_path.iterdir()) == [], "nothing is made to find that out"
    control = control_file(Deployment(data_dir=tmp_path))
    control.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:  # its socket is still there
        killed.bind(str(control))
    lock_file(Deployment(data_dir=tmp_path)).touch()
    assert supervisor_pid(control) is None
    assert end(tmp_path) is None


def test_one_that_starts_is_not_said_to_be_gone(tmp_path: Path) -> None:
    lock = lock_file(Deployment(data_dir=tmp_path))
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="locked and does not listen"):
            end(tmp_path)


@pytest.mark.parametrize("pid", [0, -1])
def test_no_process_of_ours_is_meant_by_a_number_of_another_container(
    pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says 0 of a process that it cannot name here, and a signal to 0 is for our own
    process group."""
    monkeypatch.setattr(ending, "supervisor_pid", lambda _: pid)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("nothing may be signalled"))
    with pytest.raises(UserError, match="runs in another container"):
        end(tmp_path)
