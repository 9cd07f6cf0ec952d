"""A real broker in a thread of the test, on a free port of loopback, without ZooKeeper."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tallymark.broker.ports import Ports, kernel_boot_id
from tallymark.broker.server import Broker
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.coordination.session.client import OpenClient
from tallymark.coordination.session.kazoo_client import KazooPort
from tallymark.log import Files, OsFiles
from tallymark.processes.free_ports import free_ports

T = TypeVar("T")
_TIMEOUT = 30.0


class BrokerThread:
    """A broker with its data below ``tmp_dir``, as a context manager::

        with BrokerThread(tmp_path, num_partitions=4) as broker:
            Producer(bootstrap_servers=broker.bootstrap_servers)

    ``settings`` are fields of :class:`~tallymark.broker.settings.broker.BrokerSettings`, ``files``
    is the disk, default: the real one, ``zookeeper`` what connects to ZooKeeper, default: kazoo
    (:class:`~tallymark.testing.zookeeper_tree.threaded.MemoryZooKeeper` has one), ``boot_id``
    returns the id of the kernel's boot, another one where the machine has stopped. After
    :meth:`stop` or :meth:`kill` it may be started again, on the same data and port.
    """

    def __init__(
        self,
        tmp_dir: Path,
        *,
        files: Files | None = None,
        zookeeper: OpenClient | None = None,
        boot_id: Callable[[], str] = kernel_boot_id,
        **settings: Any,
    ) -> None:
        fixed: dict[str, Any] = {
            "log_dirs": (tmp_dir / "broker",),
            "port": free_ports(1)[0],  # no connection may take it while the broker is stopped
            "enable_zookeeper": False,
        }
        self.settings = BrokerSettings(**(fixed | settings))
        self._ports = Ports(
            files=files or OsFiles(), zookeeper=zookeeper or KazooPort, boot_id=boot_id
        )
        self.broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the running broker; the same after a restart."""
        return f"{self.settings.host_name}:{self.settings.port}"

    def start(self) -> Self:
        """Start and wait until it serves; raises what :meth:`Broker.start` raises."""
        assert self._thread is None, "it runs already"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tallymark-broker", daemon=True
        )
        self._thread.start()
        try:
            self.call(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly: everything flushed, nothing to recover. Idempotent."""
        if self.broker is not None:
            self.call(self.broker.stop())
            self._end()

    def kill(self) -> None:
        """Stop at once: connections are cut, nothing is flushed, the next start recovers."""
        if self.broker is not None:
            self.call(self.broker.abort())
            self._end()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and wait for it, at most 30 s."""
        assert self._loop is not None, "start() first"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT)

    def __enter__(self) -> Self:
        return self if self.broker is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def _start(self) -> None:
        broker = Broker(self.settings, self._ports)
        await broker.start()
        self.broker = broker
        # A restart takes the same port, or clients would look for it in vain.
        self.settings = self.settings.model_copy(update={"port": broker.address.port})

    def _end(self) -> None:
        """Stop the loop and its thread; nothing of either is left."""
        loop, thread = self._loop, self._thread
        self.broker = self._loop = self._thread = None
        assert loop is not None
        assert thread is not None
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(_TIMEOUT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_TIMEOUT)
        loop.close()
