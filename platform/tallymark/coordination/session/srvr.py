"""What a ZooKeeper server says of itself: its command ``srvr``, the only one that is allowed by
default."""

from __future__ import annotations

import re
import socket
from typing import Final

_ZXID: Final = re.compile(rb"^Zxid: 0x([0-9a-f]+)\r?$", re.MULTILINE)
_MOST_BYTES: Final = 65536


def srvr(host: str, port: int, timeout: float = 2.0) -> bytes:
    """The answer; empty where nothing answers within ``timeout`` seconds."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(b"srvr")
            while len(answer) < _MOST_BYTES and (data := connection.recv(4096)):
                answer += data
    except OSError:
        return b""
    return answer


def last_change(answer: bytes) -> int | None:
    """The number of the last change that the server has (zxid), None where it does not say. A
    server refuses a client that has seen a later one."""
    found = _ZXID.search(answer)
    return int(found[1], 16) if found else None
