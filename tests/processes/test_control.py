"""The control socket of ``tallymark up``: nobody who hangs on it holds anything up."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.processes.supervisor import control, control_server, run
from tallymark.processes.supervisor.control import NotRunningError, ask, socket_path
from tallymark.processes.supervisor.control_server import ControlServer
from tallymark.processes.supervisor.plan import ProcessSpec
from tallymark.processes.supervisor.run import Supervisor, control_file


@contextmanager
def stepping(supervisor: Supervisor) -> Iterator[None]:
    """The loop of ``tallymark up``."""
    ended = threading.Event()

    def steps() -> None:
        while not ended.wait(0.01):
            supervisor.step()

    thread = threading.Thread(target=steps)
    thread.start()
    try:
        yield
        assert thread.is_alive(), "the supervisor died"
    finally:
        ended.set()
        thread.join()


@contextmanager
def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A supervisor of one process, which waits for another for ever."""
    monkeypatch.setattr(run, "plan", lambda _: (ProcessSpec("one", (), after=("one",)),))
    deployment = Deployment(data_dir=folder)
    supervisor = Supervisor(deployment, lambda *_: None)
    supervisor.start()
    with stepping(supervisor):
        yield deployment
    stopping = threading.Thread(target=supervisor.stop, daemon=True)
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive(), "it never ends"


def connect(address: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    with socket_path(address) as path:
        link.connect(path)
    return link


def names(deployment: Deployment) -> list[str]:
    answer = ask(control_file(deployment), {"do": "status"})
    return [one["name"] for one in answer["processes"]]


def test_silent_connections_hold_up_neither_status_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of the same machine opened one connection to the control port and said nothing:
    ``tallymark status`` hung from then on, and Ctrl-C did not end ``tallymark up``, which waited
    for its own connection behind the silent one."""
    with ExitStack() as hanging:
        with running(tmp_path, monkeypatch) as deployment:
            for number in range(100):
                link = hanging.enter_context(connect(control_file(deployment)))
                if number % 2:
                    link.send(b'{"do": "sta')
            assert names(deployment) == ["one"]
        with pytest.raises(NotRunningError):
            names(deployment)


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"\n", b"[]\n", b'"status"\n', b"{}\n", b"\xff\xfe\n"),
        *(b'{"name": "one"}\n', b'{"do": [], "name": "one"}\n'),
        *(b"[" * 60_000 + b"\n", b"x" * 200_000 + b"\n"),
    ],
)
def test_nonsense_ends_its_own_connection_only(
    said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request without "do" for a process that is there ended ``tallymark up`` with a KeyError,
    one that was no object with an AttributeError, and all processes with it."""
    with running(tmp_path, monkeypatch) as deployment:
        with closing(connect(control_file(deployment))) as link:
            link.settimeout(30)
            try:
                link.sendall(said)
                link.shutdown(socket.SHUT_WR)
                while data := link.recv(1 << 16):
                    assert not json.loads(data)["ok"]
            except (ConnectionResetError, BrokenPipeError):
                pass  # it did not want to hear all of it
        assert names(deployment) == ["one"]


def test_who_stops_waiting_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor was busy, the client gave up, and the answer to nobody raised an error."""
    monkeypatch.setattr(control_server, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(control_server, "_REQUEST_SECONDS", 30.0)
    server = ControlServer(tmp_path / "control.sock")
    with closing(server), closing(connect(tmp_path / "control.sock")) as link:
        link.sendall(b'{"do": "status"}\n')
        assert not link.recv(1)  # given up
        ((_, answer),) = server.pending()
        assert not answer.set_running_or_notify_cancel()


def test_only_its_user_may_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.umask(0)
    try:
        with running(tmp_path, monkeypatch) as deployment:
            assert stat.S_IMODE(control_file(deployment).stat().st_mode) == 0o600
    finally:
        os.umask(old)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux")
def test_a_deep_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a Unix socket has at most 107 bytes; a data folder may be deeper."""
    deep = tmp_path / ("d" * 100) / ("é" * 60)
    with running(deep, monkeypatch) as deployment:
        assert len(os.fsencode(control_file(deployment))) > 250
        assert names(deployment) == ["one"]
    assert not control_file(deployment).exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux")
def test_a_deep_folder_whose_descriptor_another_file_has_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a deep folder the socket is bound as ``/proc/self/fd/43/control.sock``, and 43 is closed
    then. If the process had opened a file before the thread of the control port ran, asyncio found
    ``Not a directory`` under that name: the thread ended, and with it ``tallymark status``."""
    listen = control_server._listen

    def and_open_a_file(address: Path) -> socket.socket:
        found = listen(address)
        opened.append(os.open(__file__, os.O_RDONLY))
        return found

    opened: list[int] = []
    monkeypatch.setattr(control_server, "_listen", and_open_a_file)
    with running(tmp_path / ("d" * 90) / ("e" * 90), monkeypatch) as deployment:
        assert names(deployment) == ["one"]
    for one in opened:
        os.close(one)


def test_a_socket_that_was_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``up`` was killed, its socket is still there; and whatever else stands under that name, a
    link included, is not followed."""
    address = control_file(Deployment(data_dir=tmp_path))
    address.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(address))
    with pytest.raises(NotRunningError, match="no stack is running here"):
        ask(address, {"do": "status"})
    with running(tmp_path, monkeypatch) as deployment:
        assert names(deployment) == ["one"]
    precious = tmp_path / "precious"
    precious.write_text("kept")
    address.symlink_to(precious)
    with running(tmp_path, monkeypatch) as deployment:
        assert names(deployment) == ["one"]
    assert precious.read_text() == "kept"


def test_two_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        running(tmp_path / "a", monkeypatch) as first,
        running(tmp_path / "b", monkeypatch) as second,
    ):
        assert names(first) == names(second) == ["one"]
        with pytest.raises(UserError, match="already running"):
            Supervisor(first, lambda *_: None).start()
        assert names(first) == ["one"]


def test_a_stack_that_does_not_answer_is_not_said_to_be_gone(tmp_path: Path) -> None:
    """``make demo`` removes a folder on which no stack runs: one that was stopped (Ctrl-Z) is not
    gone."""
    with closing(ControlServer(tmp_path / "control.sock")):
        with pytest.raises(UserError, match="does not answer") as slow:
            ask(tmp_path / "control.sock", {"do": "status"}, within=0.2)
        assert not isinstance(slow.value, NotRunningError)


def test_an_answer_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_BYTES", 1000)
    server = ControlServer(tmp_path / "control.sock")
    ended = threading.Event()

    def answer() -> None:
        while not ended.wait(0.01):
            for _, future in server.pending():
                future.set_result({"ok": True, "processes": ["x" * 10_000]})

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with pytest.raises(UserError, match="does not answer"):
            ask(tmp_path / "control.sock", {"do": "status"})
    finally:
        ended.set()
        thread.join()
        server.close()
