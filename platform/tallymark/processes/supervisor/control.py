"""How other commands talk to the running supervisor: over ``run/control.sock`` in its data folder.

A Unix socket that only its user may open (mode 0600), so each client that can connect may ask. One
exchange a connection, one JSON object each way, UTF-8, at most :data:`MAX_BYTES`::

    we   {"do": "status"} \\n
    it   {"ok": true, "processes": [...]} <end of stream>

Requests: ``status``, and ``hold``, ``release`` and ``kill`` with a ``name``. Answers:
``{"ok": true, ...}`` or ``{"ok": false, "error": text}``. Each side waits a few seconds for the
other: the server is :mod:`.control_server`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError

MAX_BYTES: Final = 1 << 20
ANSWER_SECONDS: Final = 10.0
"""What a caller waits for all of an exchange."""
_LONGEST_PATH: Final = 100
"""The kernel takes 107 bytes of a socket's path (Linux), 103 elsewhere."""
_START: Final = "start one with: tallymark up"


class NotRunningError(UserError):
    """No supervisor listens there."""


def ask(
    address: Path, request: Mapping[str, Any], within: float = ANSWER_SECONDS
) -> dict[str, Any]:
    """Send one request to the supervisor that listens at ``address`` and return its answer.

    Raises NotRunningError where none does, UserError where it does not answer ``within`` so many
    seconds, belongs to another user, or refuses.
    """
    deadline = time.monotonic() + within
    with connected(address, within) as link:
        link.sendall(json.dumps(dict(request)).encode() + b"\n")
        answer: dict[str, Any] = json.loads(_read_all(link, deadline))
    if not answer.get("ok"):
        raise UserError(str(answer.get("error", "the stack refused the request")))
    return answer


@contextmanager
def connected(address: Path, within: float) -> Iterator[socket.socket]:
    """A connection to the supervisor that listens at ``address``, while the block runs. Raises as
    :func:`ask`, also for what goes wrong with the connection in the block."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            _connect(link, address, time.monotonic() + within)
            yield link
    except (TimeoutError, ConnectionResetError, ValueError):
        raise UserError(
            f"the stack on {address.parent.parent} does not answer",
            "see what it says on its terminal, or ask again",
        ) from None
    except PermissionError:
        raise UserError(
            f"the stack on {address.parent.parent} is another user's", "ask as that user"
        ) from None
    except OSError:
        raise NotRunningError("no stack is running here", _START) from None


@contextmanager
def socket_path(address: Path) -> Iterator[str]:
    """A name of ``address`` that the kernel takes for a socket, however deep the folder is: where
    the path is too long, by way of the open folder."""
    path = os.fspath(address)
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    folder = os.open(address.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{address.name}"  # Linux; elsewhere there is no such file
    finally:
        os.close(folder)


def _connect(link: socket.socket, address: Path, deadline: float) -> None:
    with socket_path(address) as path:
        while True:
            link.settimeout(_left(deadline))
            try:
                link.connect(path)
            except BlockingIOError:  # others wait to be accepted; Unix sockets do not wait here
                time.sleep(min(0.05, _left(deadline)))
            else:
                return


def _read_all(link: socket.socket, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= MAX_BYTES:
        link.settimeout(_left(deadline))
        data = link.recv(1 << 16)
        if not data:
            return b"".join(parts)
        parts.append(data)
        size += len(data)
    raise ValueError("an answer without an end")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
