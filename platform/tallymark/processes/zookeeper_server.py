"""Apache ZooKeeper as a child process, run from the jars of the PySpark wheel.

``QuorumPeerMain`` with one server is ``ZooKeeperServerMain`` plus the autopurge of old snapshots,
which the latter alone silently leaves out.

The child holds three things of ours, so that ``kill -9`` of any process leaves no mess: it dies
with its parent (:mod:`tallymark.processes.die_with_parent`), it inherits the lock of the data
folder, and its output comes to our log through a pipe.
"""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, Final

from tallymark.errors import UserError
from tallymark.private_files import open_private, write_private
from tallymark.processes.child_process import kill_process, stop_process

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
_JAVA_NEEDED: Final = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"


class ZooKeeperServer:
    """One ZooKeeper server on ``host:port`` with its data in ``folder``. Not thread-safe.

    ``start`` must be called from a thread that lives as long as the server shall: on Linux the
    child is bound to the thread that made it.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 2181) -> None:
        self.folder = folder.absolute()
        self.host = host
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._last_lines: deque[str] = deque(maxlen=20)
        self._is_ready = False

    @property
    def connect(self) -> str:
        """``host:port`` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the Java process while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self, timeout: float = 60.0) -> None:
        """Start it and wait until it answers clients. UserError says what is missing or taken."""
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
        try:
            self._launch([*command, str(config)], lock)
        finally:
            os.close(lock)
        try:
            self._wait_ready(timeout)
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """UserError when the process has ended by itself."""
        process = self._process
        if process is not None and process.poll() is not None:
            raise self._ended(process.returncode)

    def stop(self, timeout: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after ``timeout`` seconds. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        if not stop_process(process, timeout):
            LOG.warning("ZooKeeper did not stop, it was killed")
        self._join(process)

    def close(self) -> None:
        """The same as :meth:`stop`."""
        self.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            kill_process(process)
            self._join(process)

    def _launch(self, command: list[str], lock: int) -> None:
        # A process of its own between us and Java would cost memory; this one becomes Java.
        wrapper = [sys.executable, "-I", str(Path(__file__).with_name("die_with_parent.py"))]
        self._last_lines.clear()
        self._is_ready = False
        self._process = subprocess.Popen(
            [*wrapper, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            pass_fds=(lock,),
            umask=0o077,  # its data has the users' salted keys
            # Ctrl-C on a terminal goes to us; we stop the child in our own time.
            start_new_session=True,
        )
        assert self._process.stdout is not None
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

    def _wait_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.check()
            if is_serving(self.host, self.port):
                self._is_ready = True
                return
            time.sleep(0.05)
        raise UserError(
            f"ZooKeeper does not answer on {self.connect} after {timeout:g} s",
            f"its last words: {self._words()}",
        )

    def _ended(self, code: int) -> UserError:
        if self._reader is not None:
            self._reader.join(2.0)
        return UserError(
            f"ZooKeeper on {self.connect} ended by itself (exit code {code})",
            f"its last words: {self._words()}",
        )

    def _words(self) -> str:
        telling = [line for line in self._last_lines if "ERROR" in line or "Exception" in line]
        return " | ".join((telling or list(self._last_lines))[-3:]) or "none"

    def _join(self, process: subprocess.Popen[bytes]) -> None:
        if self._reader is not None:
            self._reader.join(5.0)
            self._reader = None
        if process.stdout is not None:
            process.stdout.close()


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
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(b"srvr")
            answer = b""
            while len(answer) < 65536 and (data := connection.recv(4096)):
                answer += data
    except OSError:
        return False
    return b"\nMode: " in answer


def find_java(needed_by: str = "ZooKeeper") -> str:
    """The ``java`` to run: ``$JAVA_HOME``'s, else the one on the PATH. UserError: install one."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(java := Path(home) / "bin" / "java", os.X_OK):
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise UserError(f"{needed_by} needs Java, and there is none on the PATH", _JAVA_NEEDED)
    return found


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
    the lock lasts as long as anybody may write to the data."""
    lock = open_private(folder / ".lock", os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            os.close(lock)
            raise UserError(
                f"another ZooKeeper works on {folder}", "stop it, or give another data_dir"
            ) from None
        return lock


def java_property(text: str) -> str:
    """As java.util.Properties reads a value: Latin-1, backslashes doubled, the rest as \\uXXXX."""
    units = text.encode("utf-16-be")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return "".join(
        "\\\\" if code == 0x5C else chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}"
        for code in codes
    )
