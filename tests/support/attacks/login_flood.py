"""Wrong log-ins by PLAIN, as fast as they are answered: ``python login_flood.py ADDRESS KIND``.

Prints a line when it begins, and how many were refused when its standard input ends.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Final

from tallymark.net.sasl.plain import PlainClient
from tallymark.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tallymark.testing.wire import WireClient

FLOODS: Final[dict[str, Callable[[int], str]]] = {
    "one-user": lambda number: "alice",
    "many-names": lambda number: f"nobody-{number}",
}
THREADS: Final = 200


def log_in(address: str, user: str, password: str) -> int:
    """The error code of a log-in on a connection of its own."""
    with WireClient(address, 60) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = PlainClient(user, password).first()
        return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code


def main(address: str, kind: str) -> None:
    """Until standard input ends."""
    stop, refused = threading.Event(), [0] * THREADS

    def attack(thread: int) -> None:
        number = thread
        while not stop.is_set():
            number += THREADS
            with contextlib.suppress(OSError):
                refused[thread] += log_in(address, FLOODS[kind](number), f"wrong-{number}") != 0

    threads = [threading.Thread(target=attack, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    print("began", flush=True)
    sys.stdin.read()
    print(sum(refused), flush=True)
    stop.set()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
