"""A real ZooKeeper for a test, on a free port of loopback."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient

from tallymark.coordination import zookeeper_server
from tallymark.coordination.zookeeper import ZooKeeper
from tallymark.errors import UserError


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
                # Somebody else may take the port between our looking and Java's listening.
                if attempt == 4 or not self._any_port or "BindException" not in error.do:
                    raise
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def restart(self) -> None:
        """Kill it as a crash does, and start it again on the same data and port."""
        self.kill()
        self.start()


def expire_session(zookeeper: ZooKeeper) -> None:
    """End a session at the server as if it had timed out; its client hears of it as always."""
    client: Any = zookeeper._kazoo._client
    twin: Any = KazooClient(hosts=zookeeper.connect, client_id=client.client_id)
    twin.start()
    twin.stop()
    twin.close()


def free_port() -> int:
    """A port of loopback that nobody listens on just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
