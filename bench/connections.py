"""What idle connections cost: the broker's memory before and after thousands of them.

    python bench/connections.py [--count 5000] [--loop asyncio|uvloop]

Every connection has asked once (ApiVersions), as clients do, and then rests.
"""

from __future__ import annotations

import argparse
import resource
import socket
import tempfile
import time
from pathlib import Path
from typing import Final

from support.measure import cpu_seconds, rss_bytes
from support.own_broker import OwnBroker

from tallymark.protocol.frames import encode_request
from tallymark.protocol.messages import ApiVersionsRequest

_SPARE: Final = 200
"""Descriptors for everything else."""
_AIM_MB: Final = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    args = parser.parse_args()
    count = min(args.count, _allowed(args.count + _SPARE) - _SPARE)
    if count < args.count:
        print(f"only {count} connections: ulimit -n allows no more")
    with (
        tempfile.TemporaryDirectory(prefix="tallymark-bench-") as name,
        OwnBroker(Path(name), {"max.connections": str(count + _SPARE)}, args.loop) as broker,
    ):
        host, port = broker.bootstrap_servers.split(":")
        asked = encode_request(ApiVersionsRequest(), 0, 1, "bench")
        before = rss_bytes(broker.pid)
        connections: list[socket.socket] = []
        try:
            began = time.perf_counter()
            for _ in range(count):
                sock = socket.create_connection((host, int(port)), 30)
                connections.append(sock)
                sock.sendall(asked)
                if not sock.recv(65536):
                    raise RuntimeError("the broker closed a connection")
            seconds = time.perf_counter() - began
            after = rss_bytes(broker.pid)
            used = cpu_seconds(broker.pid)
            time.sleep(5)
            idle = (cpu_seconds(broker.pid) - used) / 5
        finally:
            for sock in connections:
                sock.close()
    print(
        f"{count} connections in {seconds:.1f} s: {before / 1e6:.0f} MB before, "
        f"{after / 1e6:.0f} MB after (aim: at most {_AIM_MB}), "
        f"{(after - before) / count / 1e3:.1f} KB each; {100 * idle:.1f} % of a CPU while idle"
    )


def _allowed(wanted: int) -> int:
    """Raise the limit of open files for us and the broker we start; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


if __name__ == "__main__":
    main()
