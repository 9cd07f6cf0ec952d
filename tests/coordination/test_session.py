"""Sessions through crashes of the server, and without any server."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from eventually import eventually

from tallymark.coordination import (
    Access,
    BrokerInfo,
    BrokerRegistry,
    Create,
    NotAuthorizedError,
    SessionEvent,
    SessionState,
    ZooKeeper,
    parse_connect,
)
from tallymark.errors import ClosedError, ConnectError, TallymarkError, UserError
from tallymark.testing.zookeeper import ZooKeeperServer, expire_session, free_port

SOON = 45.0
"""Seconds; a busy machine takes ten of them to start Java."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:2181", ("h:2181", "")),
        ("h", ("h", "")),
        ("h:1,i:2", ("h:1,i:2", "")),
        (" h:1, i:2/a/b/ ", ("h:1,i:2", "/a/b")),
        ("[::1]:2181/a", ("[::1]:2181", "/a")),
    ],
)
def test_addresses(text: str, expected: tuple[str, str]) -> None:
    assert parse_connect(text) == expected


@pytest.mark.parametrize("text", ["", "/a", "h:x", ":1", "h:1,,i:2", "h:1/a//b"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(UserError, match="chroot"):
        parse_connect(text)


def test_chroots_add_up() -> None:
    assert ZooKeeper("h:1/a", "/b").chroot == "/a/b"
    assert ZooKeeper("h:1", "b/").chroot == "/b"
    assert ZooKeeper("h:1/a").chroot == "/a"


def test_nobody_there_is_said_in_bounded_time() -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(ConnectError, match=rf"127.0.0.1:{port}: connect failed.*refused"):
        ZooKeeper(f"127.0.0.1:{port}", connect_timeout_ms=300).start()
    assert time.monotonic() - began < SOON


def test_somebody_else_there_is_said_in_bounded_time() -> None:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        connect = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ConnectError, match="api failed: connected, but no session"):
            ZooKeeper(connect, session_timeout_ms=1000, connect_timeout_ms=300).start()


def test_an_unopened_or_closed_session_says_so() -> None:
    session = ZooKeeper("127.0.0.1:1")
    with pytest.raises(ClosedError):
        session.children("/")
    session.close()
    session.close()
    with pytest.raises(ClosedError):
        session.start()


@pytest.mark.process
def test_a_session_survives_a_restart_of_the_server(server: ZooKeeperServer) -> None:
    """The server is killed in the middle and comes back on the same data: the session goes on,
    what is ephemeral stands, watches tell of it, and a command given meanwhile is done."""
    events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
    changes = threading.Semaphore(0)
    opening = ZooKeeper(server.connect, "/c", 6000, command_timeout_ms=60_000)
    with opening.start(create_root=True) as zookeeper:
        registry = BrokerRegistry(zookeeper)
        node = registry.register(BrokerInfo(1, "127.0.0.1", 9092))
        watch = registry.watch(lambda: changes.release())
        zookeeper.listen(events.put)
        session = zookeeper.session
        server.kill()
        assert events.get(timeout=SOON) == SessionEvent(SessionState.SUSPENDED)
        assert zookeeper.session == 0
        assert not node.is_registered
        answers: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        asker = threading.Thread(target=lambda: answers.put(list(registry.brokers())))
        asker.start()
        server.start()
        assert events.get(timeout=SOON) == SessionEvent(SessionState.CONNECTED, session)
        assert answers.get(timeout=SOON) == [1]
        asker.join()
        assert changes.acquire(timeout=SOON)
        assert node.is_registered
        watch.cancel()


@pytest.mark.process
def test_a_server_that_hangs_while_it_starts_costs_no_session(server: ZooKeeperServer) -> None:
    """A ZooKeeper that starts accepts connections a moment before it can answer them, and leaves
    those hanging for ever. A client that came in that moment waited for an answer as long as its
    session lasts, and had lost it when it tried again."""
    events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
    with ZooKeeper(server.connect, "", 6000).start() as zookeeper:
        session = zookeeper.session
        zookeeper.listen(events.put)
        server.kill()
        with socket.create_server(("127.0.0.1", server.port)) as mute:
            connection, _ = mute.accept()
        with connection:
            server.start()
            assert events.get(timeout=SOON) == SessionEvent(SessionState.SUSPENDED)
            assert events.get(timeout=SOON) == SessionEvent(SessionState.CONNECTED, session)


@pytest.mark.process
def test_a_lost_session_is_told_and_registrations_come_back(server: ZooKeeperServer) -> None:
    events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
    failures: list[TallymarkError] = []
    with ZooKeeper(server.connect, "/c", 4000).start(create_root=True) as zookeeper:
        registry = BrokerRegistry(zookeeper)
        node = registry.register(BrokerInfo(1, "127.0.0.1", 9092), failures.append)
        zookeeper.listen(events.put)
        session = zookeeper.session
        expire_session(zookeeper)
        told: list[SessionEvent] = []
        while not told or told[-1].session in (0, session):
            told.append(events.get(timeout=SOON))
        states = [event.state for event in told]
        assert states[0] is SessionState.SUSPENDED
        assert states[-2:] == [SessionState.LOST, SessionState.CONNECTED]
        eventually(lambda: node.is_registered)
        assert list(registry.brokers()) == [1]
        node.release()
        assert registry.brokers() == {}
        assert failures == []


@pytest.mark.process
def test_commands_end_in_bounded_time_when_the_server_is_gone(server: ZooKeeperServer) -> None:
    session = ZooKeeper(server.connect, "", 2000, command_timeout_ms=300)
    with session.start() as zookeeper:
        server.kill()
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(ConnectError):
                zookeeper.children("/")
            assert time.monotonic() - began < SOON
        began = time.monotonic()
    assert time.monotonic() - began < SOON, "closing took too long"


@pytest.mark.process
def test_closing_ends_a_wait_for_the_connection(server: ZooKeeperServer) -> None:
    session = ZooKeeper(server.connect, "", 2000, command_timeout_ms=60_000).start()
    errors: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    server.kill()
    eventually(lambda: session.state is SessionState.SUSPENDED)

    def ask() -> None:
        try:
            session.children("/")
        except TallymarkError as error:
            errors.put(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    time.sleep(0.1)
    session.close()
    assert isinstance(errors.get(timeout=SOON), ClosedError)
    waiting.join()


def test_closed_nodes_are_read_by_all_and_changed_by_those_with_the_password(
    make_session: Callable[..., ZooKeeper],
) -> None:
    """The credentials of users are not even read; what consumers write is open to all."""
    mine = Access("broker", "secret", closed=True)
    with (
        make_session("/closed", access=mine).start(create_root=True) as broker,
        make_session("/closed") as stranger,
        make_session("/closed", access=Access("broker", "guess")) as guesser,
        make_session("/closed", access=Access("broker", "secret")) as tool,
    ):
        for path in ("/brokers/topics/t", "/config/users/alice"):
            broker.create(path, b"x", parents=True)
        broker.commit([Create("/brokers/topics/u", b"y")])
        broker.ensure("/consumers")
        for other in (stranger, guesser):
            assert other.read("/brokers/topics/u").data == b"y"
            for path in ("/brokers/topics/t", "/brokers/topics/u"):
                with pytest.raises(NotAuthorizedError, match="does not let us"):
                    other.write(path, b"z")
            with pytest.raises(NotAuthorizedError):
                other.commit([Create("/brokers/topics/v")])
            with pytest.raises(NotAuthorizedError):
                other.read("/config/users/alice")
        stranger.create("/consumers/g/ids", parents=True)
        tool.write("/config/users/alice", b"z")
        tool.delete_tree("/brokers")


def test_parts_without_settings_take_the_credentials_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TALLYMARK_ZOOKEEPER_USER", "broker")
    monkeypatch.setenv("TALLYMARK_ZOOKEEPER_PASSWORD", "secret")
    assert Access.from_environment().auth_data == [("digest", "broker:secret")]
    assert "secret" not in repr(Access.from_environment())
    monkeypatch.delenv("TALLYMARK_ZOOKEEPER_USER")
    assert Access.from_environment().auth_data == []


def test_a_process_says_once_that_zookeeper_is_away() -> None:
    """``tallymark dashboards`` after the demo, whose ZooKeeper had stopped: 63 warnings "Connection
    dropped" within ten seconds, and every process wrote such lines while ZooKeeper restarted."""
    script = f"""
from tallymark.coordination import ZooKeeper
from tallymark.errors import ConnectError
from tallymark.processes.process import configure_logging
configure_logging()
try:
    ZooKeeper("127.0.0.1:{free_port()}", connect_timeout_ms=1000).start()
except ConnectError:
    print("away")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "away\n"
    assert done.stderr.count("\n") <= 1, done.stderr
