"""The brokers that Debian packages bring, each as a process of the bench: one node on loopback with
its data in a folder of its own. Messages are stored on disk, and no write waits for the disk where
the product lets us choose that, as in the paper."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final
from xml.sax.saxutils import quoteattr

from support.bench_server import BenchServer

from tallymark.errors import UserError
from tallymark.processes.free_ports import free_ports
from tallymark.processes.java import find_java

HEAP: Final = "1g"
"""Of ActiveMQ's Java: what its own start script gives it."""
_RABBITMQ_BIN: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ACTIVEMQ_HOME: Final = Path("/usr/share/activemq")
_LOG4J: Final = """log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m%n
"""
_INSTALL: Final = "run deploy/ensure-message-brokers"


class NotInstalledError(UserError):
    """A product is not on this machine."""


class PeerServer(BenchServer):
    """One broker of another product."""

    start_seconds: ClassVar[float] = 120.0
    stop_seconds: ClassVar[float] = 30.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "127.0.0.1", free_ports(1)[0])

    @property
    def data(self) -> Path:
        """The folder of its files."""
        return self.folder / "data"

    def _start(self, command: Sequence[str]) -> None:
        with (self.folder / "output").open("ab") as output:
            self._spawn(command, output)


class ActiveMq(PeerServer):
    """ActiveMQ with KahaDB, whose writes do not wait for the disk. ``stomp_port`` is for Python."""

    product = "ActiveMQ"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.stomp_port,) = free_ports(1)

    def _launch(self) -> None:
        if not (_ACTIVEMQ_HOME / "bin/activemq.jar").exists():
            raise NotInstalledError("ActiveMQ is not installed", _INSTALL)
        self.data.mkdir(parents=True)
        settings = self.folder / "activemq.xml"
        settings.write_text(activemq_xml(self.data, self.port, self.stomp_port), encoding="utf-8")
        logging = self.folder / "log4j.properties"
        logging.write_text(_LOG4J, encoding="utf-8")
        folders = {"home": _ACTIVEMQ_HOME, "base": self.folder, "conf": self.folder}
        self._start(
            [
                *(find_java(self.product), f"-Xms{HEAP}", f"-Xmx{HEAP}"),
                *(f"-Dactivemq.{name}={path}" for name, path in folders.items()),
                *(f"-Dlog4j.configuration=file:{logging}", f"-Dactivemq.data={self.data}"),
                *("-jar", f"{_ACTIVEMQ_HOME}/bin/activemq.jar"),
                *("start", f"xbean:file:{settings}"),
            ]
        )


def activemq_xml(data: Path, port: int, stomp_port: int) -> str:
    """``activemq.xml``: the package's example, without its web console and JMX."""
    beans = "http://www.springframework.org/schema/beans"
    core = "http://activemq.apache.org/schema/core"
    where = f"{beans} {beans}/spring-beans.xsd {core} {core}/activemq-core.xsd"
    return f"""<beans xmlns="{beans}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="{where}">
  <broker xmlns="{core}" brokerName="paper" dataDirectory={quoteattr(str(data))} useJmx="false">
    <persistenceAdapter>
      <kahaDB directory={quoteattr(f"{data}/kahadb")} journalDiskSyncStrategy="never"/>
    </persistenceAdapter>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
      <storeUsage><storeUsage limit="50 gb"/></storeUsage>
      <tempUsage><tempUsage limit="1 gb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{port}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp_port}"/>
    </transportConnectors>
  </broker>
</beans>
"""


class RabbitMq(PeerServer):
    """RabbitMQ, and the name server of Erlang that it needs, on a port of its own."""

    product = "RabbitMQ"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._names = _ErlangNames(folder / "names")
        (self._peers_port,) = free_ports(1)

    def stop(self, timeout: float | None = None) -> None:
        """Stop both. Idempotent."""
        super().stop(timeout)
        self._names.stop(timeout)

    def kill(self) -> None:
        """Kill both. Idempotent."""
        super().kill()
        self._names.kill()

    def _launch(self) -> None:
        if not _RABBITMQ_BIN.exists():
            raise NotInstalledError("RabbitMQ is not installed", _INSTALL)
        self.folder.mkdir(parents=True)
        self._names.start()
        settings = self.folder / "rabbitmq.conf"
        settings.write_text(
            f"listeners.tcp.1 = {self.address}\nlog.console = true\n"
            "log.console.level = warning\nlog.file = false\n"
        )
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._names.port),
            "RABBITMQ_NODENAME": "paper@localhost",
            "RABBITMQ_DIST_PORT": str(self._peers_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
        }
        given = [f"{name}={value}" for name, value in environment.items()]
        self._start(["/usr/bin/env", "-i", *given, str(_RABBITMQ_BIN)])


class _ErlangNames(PeerServer):
    """``epmd``. RabbitMQ would start one that outlives it."""

    product = "Erlang's name server"

    def _launch(self) -> None:
        found = shutil.which("epmd")
        if found is None:
            raise NotInstalledError("epmd is not installed", _INSTALL)
        self.folder.mkdir(parents=True)
        self._start([found, "-port", str(self.port), "-address", self.host])


class NatsJetStream(PeerServer):
    """NATS with JetStream, which stores streams in files."""

    product = "NATS JetStream"

    def _launch(self) -> None:
        found = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")
        if found is None:
            raise NotInstalledError("NATS is not installed", _INSTALL)
        self.data.mkdir(parents=True)
        # By default it takes only a share of the free disk for streams.
        settings = self.folder / "nats.conf"
        settings.write_text(
            f'listen: "{self.address}"\n'
            f'jetstream {{ store_dir: "{self.data}", max_file_store: 50GB }}\n'
        )
        self._start([found, "-c", str(settings)])
