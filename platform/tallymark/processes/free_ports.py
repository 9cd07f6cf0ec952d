"""Ports of loopback that are free just now."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """``count`` ports of loopback on which no process listens, all different from each other.

    All are held until the last is found, so that none comes twice. Another process may take one
    between this and its use.
    """
    with ExitStack() as stack:
        probes = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            for _ in range(count)
        ]
        for each in probes:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in probes]


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
