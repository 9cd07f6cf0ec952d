"""One Apache Kafka broker as a child process that dies with us.

It is a cluster of its own: broker and controller in one process (KRaft, no ZooKeeper). It dies
with its parent (:mod:`tallymark.processes.die_with_parent`), however that ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tallymark.errors import UserError
from tallymark.log_rotation import LOG_BYTES, copied
from tallymark.private_files import log_opener, write_private
from tallymark.processes import die_with_parent
from tallymark.processes.apache_kafka.jars import NotAvailableError, jars
from tallymark.processes.apache_kafka.properties import properties, text
from tallymark.processes.child_process import kill_process, stop_process
from tallymark.processes.zookeeper_server import find_java

QUICK_START: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of the JVM for a broker that lives for minutes and is asked for little."""
LONG_RUN: Final = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Those of Apache Kafka's own start script, for measuring."""
_LOGGING: Final = (
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=ERROR",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_FORMAT_SECONDS: Final = 120
"""Two seconds on a machine that does nothing else."""
_FREE_SECONDS: Final = 10.0
"""A predecessor that was just killed may be dying still."""


class ApacheKafkaServer:
    """One broker on ``host:port`` with its data in ``folder``; port 0: a free one, kept.

    ``settings`` go into its ``server.properties``, ``heap`` is the JVM's (``512m``), ``jvm`` more
    of its options. ``secured`` names security protocols that it listens with beside PLAINTEXT, on
    free ports (``ports``); what they need is among the settings.

    As a context manager it starts and stops; it may be stopped, killed and started again in
    between. Not thread-safe; ``start`` must be called from a thread that lives as long as the
    broker shall: on Linux the child is bound to the thread that made it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        node_id: int = 1,
        heap: str = "512m",
        jvm: Sequence[str] = QUICK_START,
        secured: Sequence[str] = (),
    ) -> None:
        self.folder = folder.absolute()
        self.host = host
        self.advertised_host = advertised_host or host
        self._given = dict(settings or {})
        self._node_id = node_id
        self._jvm = (f"-Xmx{heap}", *jvm, *_LOGGING)
        free, self._controller_port, *others = _free_ports(2 + len(secured))
        self.port = port or free
        self._secured = dict(zip(secured, others, strict=True))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{self.advertised_host}:{self.port}"

    @property
    def ports(self) -> dict[str, int]:
        """Every listener's, by its security protocol."""
        return {"PLAINTEXT": self.port, **self._secured}

    @property
    def pid(self) -> int:
        """The process id of its Java."""
        assert self._process is not None, "start() first"
        return self._process.pid

    @property
    def data(self) -> Path:
        """The folder of the partitions."""
        return self.folder / "data"

    @property
    def output(self) -> Path:
        """What it says."""
        return self.folder / "output.log"

    def start(self, timeout: float = 180.0) -> None:
        """Start it and wait until it takes connections. NotAvailableError without Java or jars,
        UserError with its last words when it does not start."""
        command = [_java(), *self._jvm, "-cp", f"{jars()}/*"]
        self._prepare(command)
        self._wait_free()
        # A process of its own between us and Java would cost memory; this one becomes Java.
        wrapper = [sys.executable, "-I", str(die_with_parent.__file__), str(os.getpid())]
        with open(self.output, "ab", opener=log_opener) as output:
            self._process = subprocess.Popen(
                [*wrapper, *command, "kafka.Kafka", str(self.folder / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                umask=0o077,
                # Ctrl-C on a terminal goes to us; we stop the child in our own time.
                start_new_session=True,
            )
        try:
            self._wait_ready(timeout)
        except BaseException:
            self.kill()
            raise

    def check(self) -> None:
        """UserError when it has ended by itself. Sets its output aside where that is long."""
        with suppress(OSError):
            if self.output.stat().st_size > LOG_BYTES:
                copied(self.output)
        process = self._process
        if process is not None and process.poll() is not None:
            raise UserError(
                f"Apache Kafka on {self.bootstrap_servers} ended by itself "
                f"(exit code {process.returncode})",
                f"its last words: {self._words()}",
            )

    def stop(self, timeout: float = 30.0) -> None:
        """SIGTERM, then SIGKILL after ``timeout`` seconds. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            stop_process(process, timeout)

    def close(self) -> None:
        """The same as :meth:`stop`."""
        self.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash does. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            kill_process(process)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _prepare(self, command: Sequence[str]) -> None:
        """Write its settings, and give its storage an id the first time."""
        written = self.folder / "server.properties"
        settings = properties(
            node_id=self._node_id,
            host=self.host,
            port=self.port,
            advertised_host=self.advertised_host,
            controller_port=self._controller_port,
            log_dir=self.data,
            given=self._given,
            secured=self._secured,
        )
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            write_private(written, text(settings), "latin-1")
        except OSError as error:
            raise UserError(
                f"cannot write to {self.folder}: {error.strerror}", "make it writable"
            ) from error
        if (self.data / "meta.properties").exists():
            return
        # An id may not begin with a dash: it would be read as an option.
        identity = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")
        tool = ["kafka.tools.StorageTool", "format", "-t", identity, "-c", str(written)]
        ended = subprocess.run(
            [*command, *tool], capture_output=True, text=True, timeout=_FORMAT_SECONDS
        )
        if ended.returncode:
            said = (ended.stdout + ended.stderr).strip().splitlines()
            raise UserError(
                f"Apache Kafka cannot use {self.data}", f"it said: {said[-1] if said else '?'}"
            )

    def _wait_free(self) -> None:
        end = time.monotonic() + _FREE_SECONDS
        while self._answers():
            if time.monotonic() > end:
                raise UserError(
                    f"Apache Kafka cannot listen on {self.host}:{self.port}: it is taken",
                    "stop what listens there, or set another port",
                )
            time.sleep(0.05)

    def _wait_ready(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.check()
            # Its socket opens when the broker is unfenced: what comes then is served.
            if self._answers():
                return
            time.sleep(0.05)
        raise UserError(
            f"Apache Kafka does not answer on {self.host}:{self.port} after {timeout:g} s",
            f"its last words: {self._words()}",
        )

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def _words(self) -> str:
        lines = self.output.read_text("utf-8", "replace").strip().splitlines()
        telling = [line for line in lines if "ERROR" in line or "Exception" in line]
        return " | ".join((telling or lines)[-3:])[:1000] or "none"


def _java() -> str:
    try:
        return find_java("Apache Kafka")
    except UserError as error:
        raise NotAvailableError(error.what, error.do) from None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
