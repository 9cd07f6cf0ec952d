"""Apache Kafka itself, as a process of one node: what our broker is measured and tested against.

The jars come from Maven's central repository, through ``mvn``, once, into a cache folder; a broker
is KRaft's combined role (no ZooKeeper), on free ports of loopback, with a small heap::

    with ApacheKafka(Path("/tmp/kafka")) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap_servers})

:class:`NotAvailableError` says why there is none here.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

VERSION: Final = "4.1.0"
_SCALA: Final = "2.13"
_START_SECONDS: Final = 60.0
_JVM: Final = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")

_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tallymark</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


class NotAvailableError(Exception):
    """Something of others is not on this machine; the text says what."""


def cache_folder() -> Path:
    """Where what was fetched is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tallymark"


def jars(artifact: str = f"kafka_{_SCALA}", version: str = VERSION) -> Path:
    """The folder with the jars of an artifact of Apache Kafka and all they need, fetched at the
    first call. ``kafka-clients`` is the Java client."""
    folder = cache_folder() / f"{artifact}-{version}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise NotAvailableError("mvn is not installed, and the jars of Apache Kafka are not cached")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(_POM.format(artifact=artifact, version=version))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        ended = subprocess.run(
            [*command, f"-DoutputDirectory={scratch}/jars"],
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if ended.returncode:
            lines = (ended.stdout + ended.stderr).strip().splitlines()
            raise NotAvailableError(f"mvn did not get {artifact}: {lines[0] if lines else '?'}")
        try:
            (Path(scratch) / "jars").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def java() -> str:
    """The Java program."""
    found = shutil.which("java")
    if found is None:
        raise NotAvailableError("java is not installed")
    return found


class ApacheKafka:
    """One broker, its data in ``folder``. ``settings`` go into its ``server.properties``."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, heap: str = "768m"
    ) -> None:
        self.folder = folder
        self._given = dict(settings or {})
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._controller_port = _free_ports(2)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "start() first"
        return self._process.pid

    @property
    def data(self) -> Path:
        """The folder of the partitions."""
        return self.folder / "logs"

    def start(self) -> None:
        """Return when it answers. NotAvailableError without Java or jars, RuntimeError with the
        end of its output when it does not start."""
        classpath = f"{jars()}/*"
        program = java()
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._settings().items()))
        if not self.data.exists():
            identity = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            tool = [program, "-cp", classpath, "kafka.tools.StorageTool", "format"]
            # An id may not begin with a dash: it would be read as an option.
            command = [*tool, "-t", identity.replace("-", "A"), "-c", str(properties)]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        heap = (f"-Xms{self._heap}", f"-Xmx{self._heap}")
        with (self.folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [program, *heap, *_JVM, "-cp", classpath, "kafka.Kafka", str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._await_port()

    def stop(self, kill: bool = False) -> None:
        """End it: in order, or as a crash does. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop(kill=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},"
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.segment.delete.delay.ms": "100",
            **self._given,
        }

    def _await_port(self) -> None:
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        text = (self.folder / "output").read_text(errors="replace")
        raise RuntimeError(f"Apache Kafka did not start:\n{text[-2000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
