"""One process of clients that register, delete and set modes, while servers may be killed.

``python registry_load.py NUMBER REQUESTS URL URL`` writes one JSON line a request to standard
output: what was asked, of whom, when, and what was answered (status 0: nothing, it may be done).
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

THREADS = 4
SUBJECTS = 6
TEXTS = 40


def text_of(number: int) -> str:
    """Of schemas that are all different; it is canonical."""
    return f'{{"type":"enum","name":"E{number}","symbols":["A"]}}'


class Client(threading.Thread):
    """Asks one request after the other, of the other server if one does not answer."""

    def __init__(self, name: str, requests: int, urls: list[str]) -> None:
        super().__init__(name=name)
        self.lines: list[str] = []
        self._random = random.Random(name)
        self._requests = requests
        self._urls = urls
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def run(self) -> None:
        while len(self.lines) < self._requests:
            chance = self._random.random()
            subject = f"s{self._random.randrange(SUBJECTS)}"
            url = self._random.choice(self._urls)
            if chance < 0.6:
                self.register(url, subject, self._random.randrange(TEXTS))
            elif chance < 0.75:
                version = self._random.choice(("latest", "1", "2", "3", "5", "8"))
                self.ask(url, "DELETE", f"/subjects/{subject}/versions/{version}")
            elif chance < 0.8:
                number = self._random.randrange(1, 12)
                path = f"/subjects/{subject}/versions/{number}?permanent=true"
                self.ask(url, "DELETE", path)
            elif chance < 0.9:
                self.ask(url, "GET", f"/subjects/{subject}/versions/latest")
            else:
                self.set_modes()

    def register(self, url: str, subject: str, number: int) -> tuple[int, Any]:
        body = {"schema": text_of(number)}
        return self.ask(url, "POST", f"/subjects/{subject}/versions", body)

    def set_modes(self) -> None:
        """A subject of this client's own: what one server has acknowledged, the other one obeys."""
        subject = f"mode-{self.name}"
        number = self._random.randrange(1_000_000)
        self.until_done("PUT", f"/mode/{subject}", {"mode": "READONLY"})
        for url in self._urls:
            status, _ = self.register(url, subject, number)
            self.expect(status in (422, 0, 503), f"{subject} was READONLY")
        self.until_done("DELETE", f"/mode/{subject}", None)
        for url in self._urls:
            status, _ = self.register(url, subject, number)
            self.expect(status in (200, 0, 503), f"{subject} was not READONLY any more")

    def expect(self, kept: bool, what: str) -> None:
        if not kept:
            self.lines.append(json.dumps({"broken": what, "after": self.lines[-1]}))

    def until_done(self, method: str, path: str, body: object) -> None:
        """Deleting a mode that a lost request has deleted already is a 404."""
        while True:
            status, _ = self.ask(self._random.choice(self._urls), method, path, body)
            if status in (200, 404):
                return
            time.sleep(0.05)

    def ask(self, url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and body; 0 where nothing was answered."""
        begun = time.time_ns() // 1_000_000
        status, answer = 0, None
        try:
            status, answer = self._ask(url, method, path, body)
        except (OSError, http.client.HTTPException):
            self._connections.pop(url).close()
        ended = time.time_ns() // 1_000_000
        line = {"url": url, "method": method, "path": path, "body": body, "begun": begun}
        self.lines.append(json.dumps({**line, "ended": ended, "status": status, "answer": answer}))
        return status, answer

    def _ask(self, url: str, method: str, path: str, body: object) -> tuple[int, Any]:
        if url not in self._connections:
            self._connections[url] = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        connection = self._connections[url]
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or "null")


def main() -> None:
    number, requests, *urls = sys.argv[1:]
    clients = [
        Client(f"{number}-{thread}", int(requests) // THREADS, urls) for thread in range(THREADS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
        print("\n".join(client.lines))


if __name__ == "__main__":
    main()
