"""One Apache Kafka broker as a child process that dies with us.

Broker and controller are one process (KRaft, no ZooKeeper). It is a cluster of its own, or one of
the nodes of a :class:`Quorum`.
"""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallymark.errors import UserError
from tallymark.log_rotation import LOG_BYTES, copied
from tallymark.private_files import log_opener, write_private
from tallymark.processes.apache_kafka.jars import VERSION, NotAvailableError, jars
from tallymark.processes.apache_kafka.properties import properties, text
from tallymark.processes.free_ports import free_ports
from tallymark.processes.java import find_java
from tallymark.processes.server_process import ServerProcess

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


def new_cluster_id() -> str:
    """A random one, as Apache Kafka makes them."""
    # An id may not begin with a dash: it would be read as an option.
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


@dataclass(frozen=True)
class Quorum:
    """The nodes of a cluster, each of which is broker and controller: ``controllers`` has node id
    -> the port of loopback on which its controller listens."""

    cluster_id: str
    controllers: Mapping[int, int]


class ApacheKafkaServer(ServerProcess):
    """One broker on ``host:port`` with its data in ``folder``; port 0: a free one, kept.

    ``settings`` go into its ``server.properties``, ``heap`` is the JVM's (``512m``), ``jvm`` more
    of its options. ``secured`` names security protocols that it listens with beside PLAINTEXT, on
    free ports (``ports``); what they need is among the settings. ``quorum``: the cluster that it
    is a node of; without, it is one of its own. ``version`` is one of
    :mod:`.jars`.
    """

    product = "Apache Kafka"
    start_seconds = 180.0
    stop_seconds = 30.0

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
        quorum: Quorum | None = None,
        version: str = VERSION,
    ) -> None:
        free, controller, *others = free_ports(2 + len(secured))
        super().__init__(folder, host, port or free)
        self.advertised_host = advertised_host or host
        self._given = dict(settings or {})
        self._node_id = node_id
        self._version = version
        self._quorum = quorum or Quorum(new_cluster_id(), {node_id: controller})
        self._jvm = (f"-Xmx{heap}", *jvm, *_LOGGING)
        self._secured = dict(zip(secured, others, strict=True))

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{self.advertised_host}:{self.port}"

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return self.address

    @property
    def pid(self) -> int:
        """The process id of its Java, which must have been started."""
        assert self._process is not None, "start() first"
        return self._process.pid

    @property
    def ports(self) -> dict[str, int]:
        """Every listener's, by its security protocol."""
        return {"PLAINTEXT": self.port, **self._secured}

    @property
    def data(self) -> Path:
        """The folder of the partitions."""
        return self.folder / "data"

    @property
    def output(self) -> Path:
        """The file with what it prints."""
        return self.folder / "output.log"

    def check(self) -> None:
        """UserError when it has ended by itself. Sets its output aside where that is long."""
        with suppress(OSError):
            if self.output.stat().st_size > LOG_BYTES:
                copied(self.output)
        super().check()

    def _launch(self) -> None:
        """Raises NotAvailableError without Java or jars."""
        command = [_java(), *self._jvm, "-cp", f"{jars(version=self._version)}/*"]
        self._prepare(command)
        self._wait_free()
        with open(self.output, "ab", opener=log_opener) as output:
            settings = str(self.folder / "server.properties")
            self._spawn([*command, "kafka.Kafka", settings], output)

    def _prepare(self, command: Sequence[str]) -> None:
        """Write its settings, and give its storage an id the first time."""
        written = self.folder / "server.properties"
        settings = properties(
            node_id=self._node_id,
            host=self.host,
            port=self.port,
            advertised_host=self.advertised_host,
            voters=self._quorum.controllers,
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
        tool = ["kafka.tools.StorageTool", "format", "-t", self._quorum.cluster_id]
        tool += ["-c", str(written)]
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

    def _answers(self) -> bool:
        # Its socket opens when the broker is unfenced: what comes then is served.
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def _output_lines(self) -> Sequence[str]:
        return self.output.read_text("utf-8", "replace").strip().splitlines()


def _java() -> str:
    try:
        return find_java("Apache Kafka")
    except UserError as error:
        raise NotAvailableError(error.what, error.do) from None
