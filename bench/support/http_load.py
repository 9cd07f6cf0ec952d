"""Sends prepared requests and counts the answers: ``python http_load.py JOB`` (JSON), a process.

A client that makes its requests costs more than the server that answers them; this one only sends
bytes, and looks for the end of each answer. Prints the counts as JSON.
"""

from __future__ import annotations

import json
import pickle
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

_LENGTH = b"content-length: "


class Connection:
    """One keep-alive connection with one request under way."""

    def __init__(self, port: int, requests: Iterator[bytes]) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._began = 0.0
        self._received = b""
        self.failed = 0
        self.took: list[float] = []

    def send(self) -> bool:
        """Send the next request; False where there is none."""
        request = next(self._requests, None)
        if request is None:
            return False
        self._began = time.perf_counter()
        self.sock.sendall(request)
        return True

    def receive(self) -> bool:
        """Read what is there; whether the answer is whole."""
        data = self.sock.recv(262_144)
        if not data:
            raise SystemExit("the server closed a connection")
        if self._received:
            data = self._received + data
        end = data.find(b"\r\n\r\n") + 4
        at = data.find(_LENGTH) + len(_LENGTH)
        if end < 4 or len(data) < end + int(data[at : data.index(b"\r\n", at)]):
            self._received = data
            return False
        self._received = b""
        self.failed += data[9:10] != b"2"
        self.took.append(time.perf_counter() - self._began)
        return True


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    requests: list[bytes] = pickle.loads(Path(job["requests"]).read_bytes())
    count = job["connections"]
    shares = [requests[number::count] or requests for number in range(count)]
    connections = [
        Connection(job["port"], iter(share) if job["once"] else cycle(share)) for share in shares
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    ends = began + job["seconds"]
    with selectors.DefaultSelector() as waiting:
        for connection in connections:
            if connection.send():
                waiting.register(connection.sock, selectors.EVENT_READ, connection)
        while waiting.get_map():
            for key, _ in waiting.select(60):
                if not key.data.receive():
                    continue
                if time.perf_counter() >= ends or not key.data.send():
                    waiting.unregister(key.data.sock)
    seconds = time.perf_counter() - began
    took = sorted(each for connection in connections for each in connection.took)
    result = {
        "requests": len(took),
        "seconds": seconds,
        "failed": sum(connection.failed for connection in connections),
        "p50": took[len(took) // 2],
        "p99": took[len(took) * 99 // 100],
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
