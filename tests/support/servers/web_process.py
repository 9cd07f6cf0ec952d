"""``tallymark registry`` or ``tallymark dashboards`` as a process, to be attacked and looked at."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import httpx

from tallymark.processes.child_process import kill_process
from tallymark.testing.zookeeper import free_port


class WebProcess:
    """The process with its data and logs below ``folder``; a context manager that leaves nothing
    running. ``more`` is put into its settings (TOML)."""

    def __init__(self, folder: Path, command: str, more: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = folder / "data"
        self.log = folder / f"{command}.log"
        settings = folder / f"{command}.toml"
        listening = f'data_dir = "{self.data}"\n[{command}]\nport = {self.port}\n'
        settings.write_text(listening + more)
        self._command = [sys.executable, "-m", "tallymark", command, "--settings", str(settings)]

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            assert self._process.poll() is None, self.log.read_text()[-5000:]
            assert time.monotonic() < deadline, self.log.read_text()[-5000:]
            try:
                if httpx.get(f"{self.url}/healthz").is_success:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        kill_process(self._process)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def memory(self) -> tuple[int, int]:
        """(resident now, the most it ever was), bytes (Linux)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        found = {line.split(":")[0]: line.split()[1:2] for line in status}
        return int(found["VmRSS"][0]) * 1024, int(found["VmHWM"][0]) * 1024

    def log_bytes(self) -> int:
        """What its logs take altogether."""
        logs = [self.log, *(self.data / "logs").glob("*")]
        return sum(path.stat().st_size for path in logs if path.is_file())

    def sockets(self) -> int:
        """How many it has open (Linux)."""
        count = 0
        for path in Path(f"/proc/{self._process.pid}/fd").iterdir():
            try:
                count += str(path.readlink()).startswith("socket:")
            except FileNotFoundError:
                continue
        return count


class Healthy:
    """Asks again and again, from an address of its own, and notes how long each answer took."""

    def __init__(self, ask: Callable[[httpx.Client, int], httpx.Response]) -> None:
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._ask = ask
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=transport, timeout=60) as http:
            number = 0
            while not self._stopped.wait(0.02):
                number += 1
                began = time.monotonic()
                try:
                    answer = self._ask(http, number)
                except httpx.TransportError as error:
                    self.failures.append(repr(error))
                    continue
                self.seconds.append(time.monotonic() - began)
                if answer.status_code >= 400:
                    self.failures.append(f"{answer.status_code} {answer.text[:200]}")

    @property
    def median(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2]

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[len(self.seconds) * 99 // 100]
