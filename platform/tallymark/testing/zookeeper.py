"""A real ZooKeeper for a test, on a free port of loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path
from typing import Self

from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import TimedOutError, UserError
from tallymark.processes import zookeeper_server
from tallymark.processes.free_ports import free_ports


class ZooKeeperServer(zookeeper_server.ZooKeeperServer):
    """Apache ZooKeeper with its data below ``tmp_dir``, as a context manager::

        with ZooKeeperServer(tmp_path) as server:
            with ZooKeeper(server.connect) as zookeeper: ...

    ``port=0`` takes a free one and keeps it over :meth:`restart`. ``stop()``, ``kill()`` and
    ``start()`` may be called in between. Needs Java and the extra ``spark``, else UserError.
    """

    def __init__(self, tmp_dir: Path, port: int = 0) -> None:
        super().__init__(tmp_dir / "zookeeper", "127.0.0.1", port)
        self._any_port = port == 0

    def __enter__(self) -> Self:
        for attempt in range(5):
            if self._any_port:
                self.port = free_port()
            try:
                self.start()
            except UserError as error:
                # Another process may take the port before Java listens on it.
                if attempt == 4 or not self._any_port or "BindException" not in error.do:
                    raise
            else:
                break
        return self

    def restart(self) -> None:
        """Kill it as a crash does, and start it again on the same data and port."""
        self.kill()
        self.start()


def expire_session(zookeeper: ZooKeeper, timeout: float = 15.0) -> None:
    """End a session at the server, as if it had timed out, and wait until its client has a new
    one. The client may take the old one back a few times before it is gone."""
    before = zookeeper.session
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        _close_session(zookeeper)
        noticed = time.monotonic() + 0.3
        while time.monotonic() < noticed or not zookeeper.session:
            if zookeeper.session not in (0, before):
                return
            time.sleep(0.01)
    raise TimedOutError(f"the session of {zookeeper.connect} did not end within {timeout:g} s")


def _close_session(zookeeper: ZooKeeper) -> None:
    """Connect as the session and close it, in one write::

    length i32 | protocol version i32 | last zxid i64 | timeout i32 | session id i64
               | password: length i32, 16 bytes | read only u8
    length i32 | xid i32 | type i32 (-11, close)
    """
    session, password = zookeeper._client.credentials()  # pyright: ignore[reportPrivateUsage]
    connect = struct.pack(">iqiqi16s?", 0, 0, 30_000, session, len(password), password, False)
    close = struct.pack(">ii", 1, -11)
    frames = (struct.pack(">i", len(frame)) + frame for frame in (connect, close))
    host, _, port = zookeeper.connect.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"".join(frames))
        with contextlib.suppress(OSError):
            while connection.recv(4096):
                pass


def free_port() -> int:
    """A port of loopback on which no process listens just now."""
    return free_ports(1)[0]
