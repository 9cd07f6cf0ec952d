"""A consumer of a group as a process of its own, which a test may kill or stop at any moment.

``python consumer_process.py TOPIC SETTINGS`` (JSON) writes what it was handed out, a line a
message: partition, offset, value; and what it learned of errors behind an exclamation mark.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from tallymark.client.connector.connector import ConsumerConnector


class ConsumerProcess:
    """Starts one and collects what it writes; killed at the end of ``with``. ``settings`` are those
    of the connector, over some that make it quick; without ``zookeeper_connect`` the brokers
    coordinate."""

    def __init__(
        self, zookeeper_connect: str, group: str, topic: str, name: str, **settings: object
    ) -> None:
        fixed: dict[str, object] = {
            "group": group,
            "session_timeout_ms": 2000,
            "auto_commit_interval_ms": 100,
            "fetch_max_wait_ms": 50,
        }
        if zookeeper_connect:
            fixed |= {"zookeeper_connect": zookeeper_connect, "consumer_id": name}
        self.name = name
        self.errors: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, __file__, topic, json.dumps(fixed | settings)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def taken(self) -> list[tuple[int, int, bytes]]:
        """What was handed out since the last call: partition, offset, value."""
        found: list[tuple[int, int, bytes]] = []
        while not self._lines.empty():
            partition, offset, value = self._lines.get().split()
            found.append((int(partition), int(offset), value.encode()))
        return found

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL, SIGSTOP, SIGCONT ..."""
        os.kill(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("!"):
                self.errors.append(line[1:].strip())
            elif line.endswith("\n"):  # a kill may cut the last one
                self._lines.put(line)


def _main(topic: str, settings: str) -> None:
    with ConsumerConnector(**json.loads(settings)) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        for message in stream:
            value = (message.value or b"").decode()
            os.write(1, f"{message.partition} {message.offset} {value}\n".encode())


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except Exception as error:
        os.write(1, f"!{type(error).__name__}: {error}\n".encode())
        raise
