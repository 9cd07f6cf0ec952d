"""Our broker as a process of one node."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_START_SECONDS: Final = 60.0
_WITH_UVLOOP: Final = "import uvloop; uvloop.install(); "
_MAIN: Final = "import sys; from tallymark.cli.main import main; sys.argv[0] = 'tallymark'; main()"


class OwnBroker:
    """One broker without ZooKeeper, its data in ``folder``. ``loop`` is ``asyncio`` or ``uvloop``;
    ``settings`` are broker settings, ``before`` is Python that runs in it first, to compare what is
    no setting."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        loop: str = "asyncio",
        before: str = "",
    ) -> None:
        self.folder = folder
        self._given = dict(settings or {})
        self._code = before + (_WITH_UVLOOP if loop == "uvloop" else "") + _MAIN
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]

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
        """Return when it listens; RuntimeError with the end of its output when it does not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", self._code, "broker", "--no-zookeeper"]
        command += ["--port", str(self._port), "--data", str(self.data)]
        for name, value in self._given.items():
            command += ["--set", f"{name}={value}"]
        with (self.folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)
        text = (self.folder / "output").read_text(errors="replace")
        raise RuntimeError(f"the broker did not start:\n{text[-2000:]}")

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
            process.wait(60)
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
