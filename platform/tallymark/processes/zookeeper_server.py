"""Apache ZooKeeper as a child process, run from the jars of the PySpark wheel.

``QuorumPeerMain`` with one server is ``ZooKeeperServerMain`` plus the autopurge of old snapshots,
which the latter alone silently leaves out.

The child holds three things of ours, so that ``kill -9`` of any process leaves no mess: it dies
with its parent (:mod:`tallymark.processes.die_with_parent`), it inherits the lock of the data
folder, and its output comes to our log through a pipe.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from tallymark.coordination.session.srvr import srvr
from tallymark.errors import UserError
from tallymark.private_files import open_locked, write_private
from tallymark.processes.java import find_java, java_property
from tallymark.processes.server_process import ServerProcess

LOG: Final = logging.getLogger("tallymark.zookeeper")
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# Small and quick to start: one compiler tier and the serial collector halve both.
JAVA_OPTIONS: Final = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dlog4j2.level=WARN",
    "-Dzookeeper.jmx.log4j.disable=true",
)
LOCK_SECONDS: Final = 3.0
"""A predecessor that was just killed may be dying still."""


class ZooKeeperServer(ServerProcess):
    """One ZooKeeper server on ``host:port`` with its data in ``folder``."""

    product = "ZooKeeper"
    log = LOG

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 2181) -> None:
        super().__init__(folder, host, port)
        self._reader: threading.Thread | None = None
        self._last_lines: deque[str] = deque(maxlen=20)
        self._is_ready = False

    @property
    def connect(self) -> str:
        """``host:port`` for clients."""
        return self.address

    def _launch(self) -> None:
        command = [find_java(), *JAVA_OPTIONS, "-cp", f"{find_jars()}/*", MAIN]
        _check_port(self.host, self.port)
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            config = self.folder / "zoo.cfg"
            write_private(config, configuration(self.folder, self.host, self.port), "latin-1")
            lock = _lock(self.folder)
        except OSError as error:
            raise UserError(
                f"cannot write to {self.folder}: {error.strerror}",
                "make it writable, or give another data_dir in the settings",
            ) from error
        self._last_lines.clear()
        self._is_ready = False
        try:
            self._spawn([*command, str(config)], subprocess.PIPE, (lock,))
        finally:
            os.close(lock)
        assert self._process is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="zookeeper-output", daemon=True
        )
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        for line in output:
            text = line.decode("utf-8", "replace").rstrip()
            self._last_lines.append(text)
            # Before it serves it logs stack traces about our own questions whether it does.
            LOG.log(logging.INFO if self._is_ready else logging.DEBUG, "%s", text)

    def _answers(self) -> bool:
        self._is_ready = is_serving(self.host, self.port)
        return self._is_ready

    def _output_lines(self) -> Sequence[str]:
        if self._reader is not None and self.pid is None:
            self._reader.join(2.0)
        return list(self._last_lines)

    def _on_end(self, process: subprocess.Popen[bytes], in_time: bool) -> None:
        if self._reader is not None:
            self._reader.join(5.0)
            self._reader = None
        super()._on_end(process, in_time)


def configuration(folder: Path, host: str, port: int) -> str:
    """The text of ``zoo.cfg``. Session timeouts from 1 s to 5 min are granted as asked for."""
    settings = {
        "dataDir": folder / "data",
        "clientPort": port,
        "clientPortAddress": host,
        "tickTime": 500,
        "minSessionTimeout": 1000,
        "maxSessionTimeout": 300_000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }
    return "".join(f"{name}={java_property(str(value))}\n" for name, value in settings.items())


def is_serving(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether a ZooKeeper answers ``srvr`` there and serves requests."""
    return b"\nMode: " in srvr(host, port, timeout)


def find_jars() -> Path:
    """The jars inside the PySpark wheel, found without importing it. UserError: install it."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        jars = Path(place) / "jars"
        if next(jars.glob("zookeeper-[0-9]*.jar"), None):
            return jars
    raise UserError(
        "ZooKeeper comes with the extra 'spark', which is not installed",
        "pip install 'tallymark[spark]'",
    )


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"ZooKeeper cannot listen on {host}:{port}: {error.strerror}",
                "stop what listens there, or set another zookeeper.port in the settings",
            ) from None


def _lock(folder: Path) -> int:
    """The locked descriptor of the folder's lock file. It is inherited by the Java process, so
    the lock lasts as long as any process may write to the data."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return open_locked(folder / ".lock")
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UserError(
                    f"another ZooKeeper works on {folder}", "stop it, or give another data_dir"
                ) from None
        time.sleep(0.05)
