"""The server process: what it needs, what it holds, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from eventually import eventually

from tallymark.errors import UserError
from tallymark.processes import die_with_parent, zookeeper_server
from tallymark.processes.java import find_java
from tallymark.processes.zookeeper_server import (
    ZooKeeperServer,
    configuration,
    find_jars,
    is_serving,
)
from tallymark.testing.zookeeper import free_port


def test_the_configuration() -> None:
    text = configuration(Path("/a b\\c/ä€"), "127.0.0.1", 2181)
    assert "dataDir=/a b\\\\c/\\u00e4\\u20ac/data\n" in text
    for line in (
        "clientPort=2181",
        "clientPortAddress=127.0.0.1",
        "tickTime=500",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr",
        "autopurge.purgeInterval=1",
    ):
        assert f"{line}\n" in text


def test_no_java_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"needs Java.*install Java 17"):
        find_java()


def test_no_spark_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'tallymark\[spark\]'"):
        find_jars()


def server_or_skip(folder: Path, port: int) -> ZooKeeperServer:
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    return ZooKeeperServer(folder, port=port)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = server_or_skip(tmp_path, port)
        with pytest.raises(UserError, match=rf"cannot listen on 127.0.0.1:{port}: Address already"):
            server.start()


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = server_or_skip(tmp_path / "file" / "zookeeper", free_port())
    with pytest.raises(UserError, match="cannot write to"):
        server.start()


def test_whoever_answers_something_else_is_no_zookeeper() -> None:
    assert not is_serving("127.0.0.1", free_port())
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert not is_serving("127.0.0.1", mute.getsockname()[1], timeout=0.1)


@pytest.mark.process
def test_one_server_a_folder_and_no_early_end_unnoticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_server, "LOCK_SECONDS", 0.2)
    server = server_or_skip(tmp_path, free_port())
    server.start()
    try:
        second = ZooKeeperServer(tmp_path, port=free_port())
        with pytest.raises(UserError, match="another ZooKeeper works on"):
            second.start()
        server.check()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: server.pid is None)
        with pytest.raises(UserError, match=r"ended by itself \(exit code -9\)"):
            server.check()
    finally:
        server.stop()


@pytest.mark.process
def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_server, "MAIN", "no.such.Main")
    server = server_or_skip(tmp_path, free_port())
    with pytest.raises(UserError, match=r"ended by itself.*no\.such\.Main"):
        server.start()


COMMAND = [sys.executable, "-m", "tallymark", "zookeeper"]


def settings_file(folder: Path, port: int) -> Path:
    path = folder / "tallymark.toml"
    path.write_text(f'data_dir = "{folder}"\n[zookeeper]\nport = {port}\n')
    return path


def java_children(pid: int) -> list[psutil.Process]:
    return [p for p in psutil.Process(pid).children(recursive=True) if "java" in p.name()]


@pytest.mark.process
def test_the_command_is_killed_and_leaves_nothing_then_runs_again_and_stops_clean(
    tmp_path: Path,
) -> None:
    """kill -9 of the wrapper left Java holding the port and the data."""
    port = free_port()
    server_or_skip(tmp_path, port)
    command = [*COMMAND, "--settings", str(settings_file(tmp_path, port))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
        eventually(lambda: is_serving("127.0.0.1", port), seconds=30)
        (java,) = java_children(first.pid)
        first.kill()
    eventually(lambda: not java.is_running() or java.status() == psutil.STATUS_ZOMBIE)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        assert any(": ready" in line for line in lines)
        assert is_serving("127.0.0.1", port)
        (java,) = java_children(process.pid)
        process.terminate()
        rest = list(lines)
    assert process.returncode == 0, rest
    assert not java.is_running() or java.status() == psutil.STATUS_ZOMBIE
    assert not is_serving("127.0.0.1", port)


@pytest.mark.process
def test_where_the_kernel_does_not_help_the_parent_is_watched() -> None:
    """Linux has PR_SET_PDEATHSIG; elsewhere a small process stands between."""
    script = str(Path(die_with_parent.__file__))
    between = (
        "import subprocess, sys, os, time\n"
        "code = 'import sys, runpy; m = runpy.run_path(sys.argv[1]); '\n"
        'code += \'m["watch"](int(sys.argv[2]), [sys.executable, "-c", '
        '"import time; print(1, flush=True); time.sleep(60)"])\'\n'
        "subprocess.Popen([sys.executable, '-c', code, sys.argv[1], str(os.getpid())])\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", between, script], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"1\n"
        below = psutil.Process(parent.pid).children(recursive=True)
        assert len(below) == 2
        parent.kill()
    eventually(lambda: not any(process.is_running() for process in below))
