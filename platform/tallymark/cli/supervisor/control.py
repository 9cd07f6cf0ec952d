"""How other commands talk to the running supervisor: one JSON object each way, on loopback.

The supervisor writes ``run/control.json`` (readable by its user alone) with a port and a secret;
:func:`ask` connects with both. Requests: ``{"do": "status"}``, and ``hold``, ``release`` and
``kill`` with a ``name``. Answers: ``{"ok": true, ...}`` or ``{"ok": false, "error": text}``.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tallymark.errors import UserError

Request = tuple[dict[str, Any], "Future[dict[str, Any]]"]
MAX_BYTES = 1 << 20
ANSWER_SECONDS = 10.0


class ControlServer:
    """Accepts requests in a thread and queues them for the supervisor's own loop, which is the one
    owner of its state: :meth:`pending` gives them out, the future takes the answer."""

    def __init__(self, address_file: Path) -> None:
        self._file = address_file
        secret = secrets.token_hex(16)
        self._listener = Listener(("127.0.0.1", 0), authkey=secret.encode())
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._closed = False
        content = json.dumps({"port": self._listener.address[1], "secret": secret})
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(address_file, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)
        self._thread.start()

    def pending(self) -> list[Request]:
        """The requests that have come since the last call."""
        found: list[Request] = []
        while not self._requests.empty():
            found.append(self._requests.get())
        return found

    def close(self) -> None:
        """Stop listening; wakes the accepting thread by a connection of our own."""
        self._closed = True
        try:
            address = json.loads(self._file.read_text(encoding="utf-8"))
            Client(("127.0.0.1", address["port"]), authkey=address["secret"].encode()).close()
        except (OSError, EOFError, AuthenticationError):
            pass
        self._thread.join(5)
        self._listener.close()
        self._file.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._closed:
            try:
                with self._listener.accept() as connection:
                    if not self._closed:
                        self._serve(connection)
            except (OSError, EOFError, AuthenticationError, ValueError):
                continue  # a stranger on our port, or a client that left: theirs, not ours

    def _serve(self, connection: Connection[Any, Any]) -> None:
        if not connection.poll(ANSWER_SECONDS):
            return
        request = json.loads(connection.recv_bytes(MAX_BYTES))
        answer: Future[dict[str, Any]] = Future()
        self._requests.put((request, answer))
        connection.send_bytes(json.dumps(answer.result(ANSWER_SECONDS)).encode())


def ask(address_file: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send one request to the running supervisor. Raises UserError when there is none."""
    try:
        address = json.loads(address_file.read_text(encoding="utf-8"))
        with Client(("127.0.0.1", address["port"]), authkey=address["secret"].encode()) as link:
            link.send_bytes(json.dumps(dict(request)).encode())
            if not link.poll(ANSWER_SECONDS):
                raise UserError("the stack does not answer", f"see its log beside {address_file}")
            answer: dict[str, Any] = json.loads(link.recv_bytes(MAX_BYTES))
    except (OSError, EOFError, ValueError, KeyError, AuthenticationError):
        raise UserError("no stack is running here", "start one with: tallymark up") from None
    if not answer.get("ok"):
        raise UserError(str(answer.get("error", "the stack refused the request")))
    return answer
