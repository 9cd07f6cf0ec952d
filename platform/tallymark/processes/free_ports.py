"""Ports of loopback that are free just now."""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

LOWEST: Final = 10_000
"""Below are ports of well-known services."""
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_START: Final = 32_768


def free_ports(count: int) -> list[int]:
    """``count`` ports of loopback on which no process listens, all different from each other.

    All are held until the last is found, so that none comes twice. Another process may take one
    between this and its use. That is rare: they are not among the ports that the system gives to
    outgoing connections and to listeners on port 0, and each call begins elsewhere.
    """
    with ExitStack() as stack:
        found: list[int] = []
        for port in _candidates(_first_of_the_system()):
            if len(found) == count:
                break
            probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(probe.getsockname()[1])
        return found


def _candidates(end: int) -> Iterator[int]:
    """Ports below ``end``, from anywhere on; then what the system gives."""
    span = max(0, end - LOWEST)
    start = secrets.randbelow(span) if span else 0
    yield from (LOWEST + (start + number) % span for number in range(span))
    yield from itertools.repeat(0)


def _first_of_the_system() -> int:
    """The lowest port that the system gives to a process that names none."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_START  # of Linux; elsewhere it is higher


def is_taken(host: str, port: int) -> bool:
    """Whether a process listens on the port already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: a port that is only in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False
