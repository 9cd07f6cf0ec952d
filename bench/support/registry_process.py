"""The servers of ``bench/registry.py``: the registry as its command starts it, and the controls."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import ClassVar, Final

import httpx
from support.bench_server import BenchServer

from tallymark.processes.free_ports import free_ports

_CONSTANT: Final = Path(__file__).with_name("constant_server.py")


class RegistryProcess(BenchServer):
    """ """

    product: ClassVar[str] = "the registry"

    def __init__(self, folder: Path, store: str = "") -> None:
        super().__init__(folder, "127.0.0.1", free_ports(1)[0])
        self.folder.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{self.port}"
        self._store = store

    @property
    def pid(self) -> int:
        """The process id of the server, which must have been started."""
        found = super().pid
        assert found is not None
        return found

    def start_timed(self, path: str) -> float:
        """Start it; the seconds until it has answered a request for ``path``."""
        began = time.perf_counter()
        self._launch()
        while True:
            self.check()
            try:
                if httpx.get(self.url + path).is_success:
                    return time.perf_counter() - began
            except httpx.TransportError:
                time.sleep(0.005)

    def _launch(self) -> None:
        settings = self.folder / "settings.toml"
        lines = [f'data_dir = "{self.folder / "data"}"', "[registry]", f"port = {self.port}"]
        if self._store:
            lines.append(f'store = "{self._store}"')
        settings.write_text("\n".join(lines) + "\n")
        self._python("-m", "tallymark", "registry", "--settings", str(settings))

    def _python(self, *arguments: str) -> None:
        with (self.folder / "output").open("ab") as output:
            self._spawn([sys.executable, *arguments], output)


class ConstantServer(RegistryProcess):
    """Answers every request with the same 2 kB: ``kind`` "asgi" through the registry's HTTP server,
    its guard and its access log; "bare" from a protocol of asyncio that looks at nothing."""

    product: ClassVar[str] = "the constant server"

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self._kind = kind

    def _launch(self) -> None:
        self._python(str(_CONSTANT), self._kind, str(self.port), str(self.folder / "access.log"))
