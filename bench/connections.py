"""The cost of idle connections: the broker's memory before and after thousands of them.

    python bench/connections.py [--count 5000] [--loop asyncio|uvloop]
    python bench/connections.py --storm 2000 [--backlog 1024] [--rounds 5]

Every connection sends one request (ApiVersions), as clients do, and then stays idle. ``--storm``:
so many clients connect at the same moment, as after a broker's restart; the time from that moment
to each response is measured. ``--backlog`` sets the number of connections that may wait to be
accepted in place of the broker's own.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import tempfile
import time
from pathlib import Path
from typing import Final, cast

from support.measure import cpu_seconds, rss_bytes
from support.own_broker import OwnBroker

from tallymark.net.limits.accept_queue import WAITING
from tallymark.protocol.frames import encode_request
from tallymark.protocol.messages import ApiVersionsRequest

_SPARE: Final = 200
"""Descriptors for everything else."""
_AIM_MB: Final = 300
_RETRANSMITTED: Final = 1.0
"""Seconds after which Linux sends a packet again that a listener with a full queue has dropped."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--storm", type=int, help="connect so many at once")
    parser.add_argument("--backlog", type=int, default=WAITING)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.storm:
        storms(args.storm, args.backlog, args.rounds)
    else:
        idle(args)


def storms(count: int, backlog: int, rounds: int) -> None:
    """Time ``count`` simultaneous connections and print the result, ``rounds`` times."""
    if _allowed(count + _SPARE) < count + _SPARE:
        raise SystemExit(f"ulimit -n does not allow {count} connections")
    before = f"from tallymark.net.limits import accept_queue; accept_queue.WAITING = {backlog}; "
    settings = {"max.connections": str(count + _SPARE)}
    with (
        tempfile.TemporaryDirectory(prefix="tallymark-bench-") as name,
        OwnBroker(Path(name), settings, before=before) as broker,
    ):
        host, port = broker.bootstrap_servers.split(":")
        for _ in range(rounds):
            used = cpu_seconds(broker.pid)
            took = sorted(storm((host, int(port)), count))
            used = cpu_seconds(broker.pid) - used
            p50, p99 = took[count // 2], took[count * 99 // 100]
            late = sum(each > _RETRANSMITTED for each in took)
            print(
                f"backlog {backlog}: {count} at once: answered after {p50:.2f} s (median), "
                f"{p99:.2f} s (p99), {took[-1]:.2f} s (last); {late} after a second or more; "
                f"{used:.2f} s of CPU"
            )
            time.sleep(2)


def storm(address: tuple[str, int], count: int) -> list[float]:
    """Connect ``count`` times without waiting; returns the seconds from the first connect to each
    response."""
    asked = encode_request(ApiVersionsRequest(), 0, 1, "bench")
    took: list[float] = []
    began = time.perf_counter()
    with selectors.DefaultSelector() as waiting:
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            waiting.register(sock, selectors.EVENT_WRITE)
        open_sockets = [key.fileobj for key in waiting.get_map().values()]
        while len(took) < count:
            for key, events in waiting.select(60) or ():
                sock = cast("socket.socket", key.fileobj)
                if events & selectors.EVENT_WRITE:
                    if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        raise OSError(error, "a connection was refused")
                    sock.send(asked)
                    waiting.modify(sock, selectors.EVENT_READ)
                elif not sock.recv(65536):
                    raise RuntimeError("the broker closed a connection")
                else:
                    waiting.unregister(sock)
                    took.append(time.perf_counter() - began)
    for sock in open_sockets:
        cast("socket.socket", sock).close()
    return took


def idle(args: argparse.Namespace) -> None:
    """Open connections one by one, and print their cost while they are idle."""
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
            resting = (cpu_seconds(broker.pid) - used) / 5
        finally:
            for sock in connections:
                sock.close()
    print(
        f"{count} connections in {seconds:.1f} s: {before / 1e6:.0f} MB before, "
        f"{after / 1e6:.0f} MB after (aim: at most {_AIM_MB}), "
        f"{(after - before) / count / 1e3:.1f} KB each; {100 * resting:.1f} % of a CPU while idle"
    )


def _allowed(wanted: int) -> int:
    """Raise the limit of open files for this process and its broker; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


if __name__ == "__main__":
    main()
