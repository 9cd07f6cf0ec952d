"""A simulated machine with one broker: starts and stops it, kills it, takes its power away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final

from tallymark.broker.maintenance.cleaner_process import ThreadWorker
from tallymark.broker.ports import Ports
from tallymark.broker.server import Broker
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import TallymarkError
from tallymark.testing.simulation.disk import SimulatedDisk
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.process import Process, ProcessDiedError
from tallymark.testing.simulation.engine.threads import SimulatedThreads
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.network import Network
from tallymark.testing.simulation.plan import Plan
from tallymark.testing.simulation.zookeeper import HOST as ZOOKEEPER
from tallymark.testing.simulation.zookeeper import SimulatedZooKeeper

PORT: Final = 9092
CHROOT: Final = "/simulated"
SESSION_MS: Final = 4000
_AGAIN_SECONDS: Final = 1.0


class BrokerHost:
    """Broker ``node_id`` and its disk. Whatever ends the broker but :meth:`stop` and the kills, it
    is started again, as a supervisor does."""

    def __init__(
        self,
        node_id: int,
        plan: Plan,
        jobs: Jobs,
        network: Network,
        zookeeper: SimulatedZooKeeper,
        history: History,
    ) -> None:
        self.node_id = node_id
        self.host = f"127.0.0.{node_id}"
        self.folder = f"/data/{node_id}"
        self.broker: Broker | None = None
        self.lives = 0
        self.boots = 1
        self.on_power_failure: Callable[[BrokerHost], None] = lambda host: None
        """Called with the disk as it is after the failure."""
        self._plan = plan
        self._jobs = jobs
        self._network = network
        self._zookeeper = zookeeper
        self._history = history
        self.disk = SimulatedDisk(jobs, jobs.loop.chances.of(f"disk {node_id}"))
        self.process: Process | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """In histories."""
        return f"broker {self.node_id}"

    @property
    def serves(self) -> bool:
        """Whether the broker runs and has started."""
        broker = self.broker
        return broker is not None and broker.state is not None and broker.state.serving.is_set()

    @property
    def is_offline(self) -> bool:
        """Whether the broker has given its disk up."""
        broker = self.broker
        logs = broker.state.logs if broker is not None and broker.state is not None else None
        return logs is not None and bool(logs.offline_dirs)

    def start(self) -> None:
        """Begin a life, unless it is up."""
        if self.process is not None:
            return
        self.lives += 1
        process = self.process = Process(f"{self.name}/{self.lives}", self.host)
        self._history.add(self.name, "starts", self.lives)
        loop = self._jobs.loop
        loop.create_task(self._live(process), context=process.context)

    def kill(self, *, power: bool = False) -> None:
        """``kill -9``, or with ``power`` the end of the machine as it is."""
        process = self._end()
        if process is None:
            return
        self._history.add(self.name, "power failure" if power else "killed")
        if power:
            for connection in list(self._network.connections):
                if connection.here[0] == self.host:
                    connection.silence()
        process.kill()
        if power:
            self.boots += 1
            self.disk.power_failure()
            self.on_power_failure(self)
        else:
            self.disk.kill()

    def kill_at(self, operations: int, *, power: bool) -> None:
        """Kill it at one of its next operations on the disk."""
        lived = self.process

        def crash() -> None:
            self.kill(power=power)
            raise ProcessDiedError

        self.disk.crash_in(operations, crash, lambda: lived is not None and self.process is lived)

    async def stop(self) -> None:
        """Stop cleanly; a broker that is not up yet is killed. A caller that stops waiting does
        not end the stop: see :meth:`stopped`."""
        self._stopping = self._jobs.loop.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def stopped(self) -> None:
        """Wait until no stop is under way."""
        if self._stopping is not None:
            await self._stopping

    async def _stop(self) -> None:
        broker, process = self.broker, self.process
        if broker is None or process is None:
            self.kill()
            return
        self._history.add(self.name, "stops")
        task = self._jobs.loop.create_task(broker.stop(), context=process.context)
        await asyncio.wait([task], timeout=60)
        if self.process is not process:
            return  # it was killed meanwhile
        if not task.done():
            self._history.add(self.name, "does not stop")
        elif task.exception() is not None:
            raise AssertionError(f"{self.name} failed to stop") from task.exception()
        self._end()
        process.kill()
        self.disk.kill()

    def _end(self) -> Process | None:
        process, self.process, self.broker = self.process, None, None
        return process

    async def _live(self, process: Process) -> None:
        """Start the broker until it stands, and again when it gives up."""
        while True:
            broker = Broker(self._settings(), self._ports(process))
            try:
                await broker.start()
                self.broker = broker
                self._history.add(self.name, "serves")
                await broker.failed
            except TallymarkError as error:
                self._history.add(self.name, "gives up", str(error).partition("\n")[0])
                self.broker = None
                await broker.stop()
            except asyncio.CancelledError:
                return  # broker.failed is cancelled at the end of a stop
            await asyncio.sleep(_AGAIN_SECONDS)

    def _ports(self, process: Process) -> Ports:
        def threads(workers: int, name: str) -> Executor:
            return SimulatedThreads(self._jobs, process, workers, name)

        return Ports(
            files=self.disk,
            now_ms=self._zookeeper.now_ms,
            threads=threads,
            zookeeper=self._zookeeper.client_of(process),
            boot_id=lambda: f"{self.boots:08x}-0000-4000-8000-{self.node_id:012x}",
            compaction=lambda files: ThreadWorker(files, self._jobs.loop.time),
        )

    def _settings(self) -> BrokerSettings:
        plan = self._plan
        settings: dict[str, Any] = {
            "node_id": self.node_id,
            "host_name": self.host,
            "port": PORT,
            "listeners_allow_plaintext": True,
            "enable_zookeeper": True,
            "zookeeper_connect": f"{ZOOKEEPER}:2181{CHROOT}",
            "zookeeper_session_timeout_ms": SESSION_MS,
            "log_dirs": (Path(self.folder),),
            "log_segment_bytes": plan.segment_bytes,
            "log_flush_before_expose": plan.flush,
            "offsets_topic_num_partitions": 2,
            "offsets_topic_replication_factor": plan.replicas,
            "min_insync_replicas": plan.min_insync,
            "transaction_state_log_num_partitions": 2,
            "transaction_state_log_replication_factor": plan.replicas,
            "transaction_state_log_min_isr": plan.min_insync,
            "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1000,
            "log_cleaner_backoff_ms": 1000,
            "log_retention_check_interval_ms": 3000,
            "log_flush_offset_checkpoint_interval_ms": 4000,
            "group_initial_rebalance_delay_ms": 0,
            "admin_trail_file": "none",
            "auto_create_topics_enable": False,
        }
        return BrokerSettings(**settings)
