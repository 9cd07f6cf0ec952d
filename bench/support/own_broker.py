"""Our broker as a process of one node."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.bench_server import BenchServer

from tallymark.processes.free_ports import free_ports

_WITH_UVLOOP: Final = "import uvloop; uvloop.install(); "
_FROM_TREE: Final = (
    "import sys; sys.path[:0] = [f'{0}/{{part}}' for part in ('platform', 'audit')]; "
)
_MAIN: Final = "import sys; from tallymark.cli.main import main; sys.argv[0] = 'tallymark'; main()"


class OwnBroker(BenchServer):
    """One broker, its data in ``folder``; without ZooKeeper unless ``settings``, which are broker
    settings, have a ``zookeeper.connect``. ``loop`` is ``asyncio`` or ``uvloop``. ``before`` is
    Python code that runs in the process first, to compare variants for which there is no setting.
    ``tree`` is the working tree whose code runs; None: that of this process.
    """

    product = "the broker"
    stop_seconds = 60.0

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        loop: str = "asyncio",
        before: str = "",
        tree: Path | None = None,
    ) -> None:
        super().__init__(folder, "127.0.0.1", free_ports(1)[0])
        self._given = dict(settings or {})
        if tree is not None:
            before = _FROM_TREE.format(tree.absolute()) + before
        self._code = before + (_WITH_UVLOOP if loop == "uvloop" else "") + _MAIN

    @property
    def pid(self) -> int:
        """The process id of the broker, which must have been started."""
        assert self._process is not None, "start() first"
        return self._process.pid

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return self.address

    @property
    def data(self) -> Path:
        """The folder of the partitions."""
        return self.folder / "logs"

    def _launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", self._code, "broker"]
        command += ["--port", str(self.port), "--data", str(self.data)]
        if "zookeeper.connect" not in self._given:
            command.append("--no-zookeeper")
        for name, value in self._given.items():
            command += ["--set", f"{name}={value}"]
        with (self.folder / "output").open("wb") as output:
            self._spawn(command, output)
