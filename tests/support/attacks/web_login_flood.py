"""Wrong log-ins by HTTP Basic, as fast as answers come: ``python web_login_flood.py PORT KIND``.

Prints a line when it begins, and how many were refused when its standard input ends.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import sys
import threading
from collections.abc import Callable
from typing import Final

FLOODS: Final[dict[str, Callable[[int], str]]] = {
    "one-user": lambda number: "alice",
    "many-users": lambda number: f"user-{number % 300}",
    "many-names": lambda number: f"nobody-{number}",
}
THREADS: Final = 100


def basic(user: str, password: str) -> dict[str, str]:
    """The header that logs in."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def main(port: int, kind: str) -> None:
    """Until standard input ends."""
    stop, refused = threading.Event(), [0] * THREADS

    def attack(thread: int) -> None:
        number = thread
        while not stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            with contextlib.suppress(OSError, http.client.HTTPException):
                while not stop.is_set():
                    number += THREADS
                    headers = basic(FLOODS[kind](number), f"wrong-{number}")
                    connection.request("GET", "/subjects", headers=headers)
                    answer = connection.getresponse()
                    answer.read()
                    refused[thread] += answer.status in (401, 429)
            connection.close()

    threads = [threading.Thread(target=attack, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    print("began", flush=True)
    sys.stdin.read()
    print(sum(refused), flush=True)
    stop.set()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
