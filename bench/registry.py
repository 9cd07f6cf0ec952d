"""The speed of the schema registry: requests per second, and the server's processor time of each.

    python bench/registry.py [--quick] [--only reads,writes,postgresql,transitive] [--json FILE]

The registry runs as its command starts it, on SQLite, with its access log. Two processes send
prepared bytes, on 1 and on 32 connections; each connection has one request under way. ``server`` is
the processor time of the server for one request, which also holds on a busy machine; ``of a GET``
is that beside a schema by its id, ``of the control`` beside a constant answer of 2 kB through the
same HTTP server, guard and access log, in the same run. ``--quick`` has a tenth of the schemas.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx
from support.measure import cpu_seconds, machine, rss_bytes, table
from support.registry_process import ConstantServer, RegistryProcess

sys.path.append(str(Path(__file__).parents[1] / "tests/support"))
sys.path.append(str(Path(__file__).parents[1] / "tests/support/servers"))
from postgres import start_postgres

SCHEMAS: Final = 10_000
CONNECTIONS: Final = (1, 32)
CLIENTS: Final = 2
_LOAD: Final = Path(__file__).parent / "support" / "http_load.py"
_HEAD: Final = (
    "Host: 127.0.0.1:{port}\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n"
    "Accept: application/vnd.schemaregistry.v1+json, application/json\r\n"
    "Connection: keep-alive\r\n"
)


@dataclass(frozen=True)
class Result:
    """``per_s``: requests a second; ``server_us``: processor time of the server a request; times of
    an answer in milliseconds."""

    what: str
    connections: int
    per_s: float
    server_us: float
    p50_ms: float
    p99_ms: float


def schema(number: int, fields: int = 24) -> str:
    """A schema of about 2 kB."""
    return json.dumps(
        {
            "type": "record",
            "name": f"Event{number}",
            "namespace": "com.example.bench",
            "fields": [
                {"name": f"field_{i}", "type": ["null", "string"], "doc": f"of {number}"}
                | {"default": None}
                for i in range(fields)
            ],
        }
    )


def get(path: str, port: int) -> bytes:
    """The bytes of a request."""
    return f"GET {path} HTTP/1.1\r\n{_HEAD.format(port=port)}\r\n".encode()


def post(path: str, text: str, port: int) -> bytes:
    """The bytes of a request that sends a schema."""
    body = json.dumps({"schema": text}).encode()
    more = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST {path} HTTP/1.1\r\n{_HEAD.format(port=port)}{more}".encode() + body


def load(
    server: RegistryProcess,
    what: str,
    requests: Sequence[bytes],
    connections: int,
    seconds: float | None = None,
) -> Result:
    """Send ``requests`` again and again for so long; None: each of them once."""
    processes = min(CLIENTS, connections)
    with tempfile.TemporaryDirectory() as folder:
        clients: list[subprocess.Popen[str]] = []
        for number in range(processes):
            path = Path(folder) / str(number)
            path.write_bytes(pickle.dumps(list(requests[number::processes])))
            job = {"port": server.port, "requests": str(path), "once": seconds is None}
            job |= {"connections": connections // processes, "seconds": seconds or 3600}
            clients.append(_client(job))
        for client in clients:
            assert client.stdout is not None
            client.stdout.readline()
        used = cpu_seconds(server.pid)
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        ended = [json.loads(client.communicate()[0]) for client in clients]
        used = cpu_seconds(server.pid) - used
    if any(each["failed"] for each in ended):
        raise RuntimeError(f"{what}: {ended} (answers that are errors)")
    count = sum(each["requests"] for each in ended)
    result = Result(
        what,
        connections,
        count / max(each["seconds"] for each in ended),
        used / count * 1e6,
        max(each["p50"] for each in ended) * 1e3,
        max(each["p99"] for each in ended) * 1e3,
    )
    print(
        f"  {what}, {connections} connections: {result.per_s:,.0f}/s, "
        f"{result.server_us:,.0f} µs of the server, p99 {result.p99_ms:.1f} ms",
        flush=True,
    )
    return result


def _client(job: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(_LOAD), json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def controls(folder: Path, seconds: float) -> list[Result]:
    """A constant answer."""
    found = []
    for kind, what in (("asgi", "control"), ("bare", "bare protocol")):
        with ConstantServer(folder / kind, kind) as server:
            request = get("/schemas/ids/1", server.port)
            found += [load(server, what, [request] * 64, n, seconds) for n in CONNECTIONS]
    return found


def writes(server: RegistryProcess, count: int, first: int, what: str) -> list[Result]:
    """New schemas: a tenth of them on one connection, the others on 32."""

    def registered(numbers: range) -> list[bytes]:
        return [post(f"/subjects/bench-{n}/versions", schema(n), server.port) for n in numbers]

    one = max(min(50, count // 2), count // 10)
    return [
        load(server, what, registered(range(first, first + one)), 1),
        load(server, what, registered(range(first + one, first + count)), 32),
    ]


def reads(server: RegistryProcess, count: int, seconds: float) -> list[Result]:
    """What is asked for again and again; each request was made once before."""
    port = server.port
    kinds = {
        "by id": [get(f"/schemas/ids/{n}", port) for n in range(1, count + 1)],
        "known registration": [
            post(f"/subjects/bench-{n}/versions", schema(n), port) for n in range(count)
        ],
        "look-up": [post(f"/subjects/bench-{n}", schema(n), port) for n in range(count)],
        "latest": [get(f"/subjects/bench-{n}/versions/latest", port) for n in range(count)],
    }
    found = []
    for what, requests in kinds.items():
        load(server, f"{what}, the first time", requests, 32)
        found += [load(server, what, requests, n, seconds) for n in CONNECTIONS]
    return found


class Others:
    """Asks for a schema by its id all the time, in a thread; ``slowest``: seconds of an answer."""

    def __init__(self, url: str) -> None:
        self.slowest = 0.0
        self._url = url
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        with httpx.Client() as http:
            while not self._done.wait(0.001):
                began = time.perf_counter()
                http.get(f"{self._url}/schemas/ids/1").raise_for_status()
                self.slowest = max(self.slowest, time.perf_counter() - began)


def transitive(server: RegistryProcess, versions: int) -> dict[str, float]:
    """Seconds of a check against all versions of 40 fields, after a start; and the longest answer
    by id meanwhile."""

    def body(number: int) -> dict[str, str]:
        return {"schema": schema(number, 40).replace(f"Event{number}", "Many")}

    subject, config = f"{server.url}/subjects/many/versions", f"{server.url}/config/many"
    found: dict[str, float] = {}
    with httpx.Client(timeout=120) as http:
        http.put(config, json={"compatibility": "NONE"}).raise_for_status()
        for number in range(versions):
            http.post(subject, json=body(number)).raise_for_status()
        http.put(config, json={"compatibility": "FULL_TRANSITIVE"}).raise_for_status()
    server.stop()
    server.start()
    check = f"{server.url}/compatibility/subjects/many/versions"
    with httpx.Client(timeout=120) as http:
        for number, what in enumerate(("first", "second")):
            with Others(server.url) as others:
                began = time.perf_counter()
                answer = http.post(check, json=body(versions + number)).raise_for_status().json()
                found[f"{what} check against {versions} versions, s"] = time.perf_counter() - began
            found[f"slowest answer to others during the {what} check, s"] = others.slowest
            assert answer["is_compatible"], answer
    return found


def starts(server: RegistryProcess, path: str) -> float:
    """Seconds from a start to the first answer; the server runs before and after."""
    server.stop()
    return server.start_timed(path)


def postgresql(folder: Path, count: int) -> list[Result]:
    """New schemas on PostgreSQL, synced."""
    database = start_postgres("fsync=on", "synchronous_commit=on", "full_page_writes=on")
    try:
        with RegistryProcess(folder / "pg", database.new_database()) as server:
            return writes(server, count, 0, "new, PostgreSQL")
    finally:
        database.stop()


def on_sqlite(folder: Path, parts: set[str], count: int, seconds: float) -> dict[str, Any]:
    """Everything that is measured on SQLite: requests, and other figures by name."""
    found: list[Result] = []
    figures: dict[str, float] = {}
    server = RegistryProcess(folder / "sqlite")
    figures["start, empty, s"] = server.start_timed("/subjects")
    try:
        figures["memory, empty, MB"] = rss_bytes(server.pid) / 1e6
        found += writes(server, count, 0, "new, SQLite")
        figures[f"start, {count:,} schemas, s"] = starts(server, "/schemas/ids/1")
        figures[f"memory, {count:,} schemas, MB"] = rss_bytes(server.pid) / 1e6
        if "reads" in parts:
            found += reads(server, count, seconds)
            figures["memory after all of them, MB"] = rss_bytes(server.pid) / 1e6
        if "transitive" in parts:
            figures |= transitive(server, 500 if count == SCHEMAS else 100)
    finally:
        server.stop()
    return {"results": found, "figures": figures}


def print_results(results: Sequence[Result], figures: dict[str, float]) -> None:
    """The tables for docs/performance.md."""
    server = {(each.what, each.connections): each.server_us for each in results}
    rows = [
        ["request", "connections", "per s", "server, µs", "of the control", "of a GET", "p99 ms"]
    ]
    for each in results:
        ratios = [
            f"{each.server_us / server[name, each.connections]:.2f}"
            if (name, each.connections) in server
            else ""
            for name in ("control", "by id")
        ]
        rows.append(
            [
                *(each.what, str(each.connections), f"{each.per_s:,.0f}"),
                *(f"{each.server_us:,.0f}", *ratios, f"{each.p99_ms:.1f}"),
            ]
        )
    print("\n" + table(rows) + "\n")
    if figures:
        print(table([["what", ""], *([name, f"{value:.2f}"] for name, value in figures.items())]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the schemas, shorter")
    parser.add_argument("--only", default="reads,writes,postgresql,transitive")
    parser.add_argument("--schemas", type=int, help="how many schemas")
    parser.add_argument(
        "--seconds", type=float, help="of each measurement; 2 with --quick, else 10"
    )
    parser.add_argument("--json", type=Path, help="write the numbers there")
    options = parser.parse_args()
    count = options.schemas or (SCHEMAS // 10 if options.quick else SCHEMAS)
    seconds = options.seconds or (2.0 if options.quick else 10.0)
    parts = set(options.only.split(","))
    results: list[Result] = []
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tallymark-bench-") as name:
        folder = Path(name)
        if "reads" in parts:
            results += controls(folder, seconds)
        if parts & {"reads", "writes", "transitive"}:
            found = on_sqlite(folder, parts, count, seconds)
            results += found["results"]
            figures |= found["figures"]
        if "postgresql" in parts:
            results += postgresql(folder, max(count // 5, 200))
    print_results(results, figures)
    if options.json:
        found = {"machine": machine(), "schemas": count, "figures": figures}
        found["results"] = [asdict(each) for each in results]
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
