"""How long the pages of the dashboards take on a large store, and what live pages cost.

    python bench/dashboards.py [--store FILE] [--topics 10000] [--readers 20] [--viewers 200]
                               [--seconds 60] [--only pages,readers,load,live] [--json FILE]

The store has 10,000 topics, 1,440 windows, 2 million verdicts and 3 clusters (SQLite). FILE is
filled where it does not exist, and kept; what is written meanwhile goes to a copy of it.

``pages``: processor time of a page, from the address to the whole HTML, and how many statements it
runs; also on a store of 200 topics, which must take as many. ``readers``: so many people who open a
page every other second; seconds in the server from the head of a request to the end of its answer.
``load``: bytes of a first visit, with all files that a page loads. ``live``: so many open pages
while ten windows a second are judged, and then while nothing changes.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx
import psutil
from sqlalchemy import event
from support.dashboard_process import deployment_of
from support.dashboard_store import TOPICS, W, edges_of, fill_big, topic_name
from support.live_viewers import Viewers
from support.measure import cpu_seconds, machine, table

from tallymark.clock import now_ms
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import collectors, progress
from tallymark_dashboards.access.user import VIEWER
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.frame.rendering import compose, document, fragment
from tallymark_dashboards.pages import load_pages

PROCESS: Final = Path(__file__).parent / "support" / "dashboard_process.py"
ROUNDS: Final = 30
THINKING_S: Final = 2.0
HEARTBEAT_S: Final = 5.0
JUDGED_EVERY_S: Final = 0.3
"""Three windows at a time, so ten a second, as three collectors do."""
ASSET: Final = re.compile(r'<(?:link rel="stylesheet" href|script src)="([^"]+)"')
ICON: Final = re.compile(r'<link rel="icon"[^>]* href="([^"]+)"')


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--store", type=Path)
    arguments.add_argument("--topics", type=int, default=TOPICS)
    arguments.add_argument("--readers", type=int, default=20)
    arguments.add_argument("--viewers", type=int, default=200)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--only", default="pages,readers,load,live")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    load_pages()
    parts = given.only.split(",")
    results: dict[str, Any] = {"machine": machine(), "topics": given.topics}
    with tempfile.TemporaryDirectory() as folder:
        big = filled(given.store or Path(folder) / "big.db", given.topics)
        if "pages" in parts:
            results["pages"] = pages(big, filled(Path(folder) / "small.db", 200))
        if {"readers", "load", "live"} & set(parts):
            results |= served(big, Path(folder), parts, given)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


def filled(path: Path, topics: int) -> Path:
    """A store at ``path``; it is filled if there is none."""
    if not path.exists():
        began = time.monotonic()
        with open_store(f"sqlite:///{path}") as store:
            count = fill_big(store, now_ms(), topics)
        print(f"{count:,} verdicts of {topics:,} topics: {time.monotonic() - began:.0f} s")
    return path


def addresses(number: int = 0) -> dict[str, str]:
    """The pages that are measured, about one topic."""
    place = {"edge": edges_of(number)[1], "topic": topic_name(number)}
    known = {
        "overview": "/",
        "overview, find": f"/?{urlencode({'q': topic_name(number)[:12]})}",
        "heatmap": "/heatmap",
        "topic": f"/topic?{urlencode({'topic': topic_name(number)})}",
        "topic, one hop": f"/topic?{urlencode(place)}",
        "incidents": "/incidents",
        "window": f"/window?{urlencode({**place, 'window': now_ms() // W * W - 5 * W})}",
        "clusters": "/clusters",
        "runs": "/runs",
        "alerts": "/alerts",
        "wall": "/wall",
    }
    paths = {entry.path for entry in PAGES.values()}
    return {name: at for name, at in known.items() if urlsplit(at).path in paths}


# --- one page at a time ---------------------------------------------------------------------------


@dataclass
class Cost:
    """Of one page: processor time (ms), statements and bytes of HTML."""

    p50: float
    p95: float
    statements: int
    html: int


def pages(big: Path, small: Path) -> dict[str, Any]:
    """Each page again and again in this process, about one topic after the other."""
    found = {"big": costs(big), "small": costs(small)}
    rows = [["page", "p50 ms", "p95 ms", "statements", "of 200 topics", "HTML kB"]]
    for name, cost in found["big"].items():
        of_small = found["small"][name]
        rows.append(
            [name, f"{cost.p50:.1f}", f"{cost.p95:.1f}", str(cost.statements),
             str(of_small.statements), f"{cost.html / 1000:.1f}"]
        )  # fmt: skip
    print(table(rows))
    return {size: {name: vars(cost) for name, cost in one.items()} for size, one in found.items()}


def costs(path: Path) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{path}") as store:
        context = Context.of(deployment_of(store.address, Path(folder)), store)
        gc.collect()
        gc.freeze()  # as the command does
        return {name: cost_of(context, name) for name in addresses()}


def cost_of(context: Context, name: str) -> Cost:
    taken: list[float] = []
    statements: list[str] = []
    html = ""

    def note(*said: Any) -> None:
        statements.append(said[2])

    for number in range(ROUNDS + 1):
        if number == ROUNDS:
            event.listen(context.store.engine, "before_cursor_execute", note)
        parts = urlsplit(addresses(number % 10)[name])
        now, began = now_ms(), time.thread_time()
        one = compose(context, parts.path, parse_qsl(parts.query), VIEWER, now)
        html = document(context, one, fragment(context, one), now)
        taken.append((time.thread_time() - began) * 1000)
    event.remove(context.store.engine, "before_cursor_execute", note)
    warm = sorted(taken[1:])
    count = sum(not one.startswith("BEGIN") for one in statements)
    return Cost(warm[len(warm) // 2], p95(warm), count, len(html.encode()))


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


# --- over sockets ---------------------------------------------------------------------------------


def served(big: Path, folder: Path, parts: list[str], given: Any) -> dict[str, Any]:
    """What is measured with a server in a process of its own, on a copy of the store."""
    copy = folder / "copy.db"
    shutil.copy(big, copy)
    results: dict[str, Any] = {}
    with open_store(f"sqlite:///{copy}") as store, server(copy, folder) as (port, process):
        if "load" in parts:
            results["load"] = first_load(port)
        if "live" in parts:
            results["live"] = live(store, port, process, given.viewers, given.seconds)
        if "readers" in parts:
            with judging(store):
                read_along(port, given.readers, given.seconds)
    if "readers" in parts:
        results["readers"] = answer_times(json.loads((folder / "times.json").read_text()))
    return results


@contextmanager
def server(path: Path, folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """The dashboards: port and process."""
    command = [sys.executable, PROCESS, f"sqlite:///{path}", folder / "times.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def first_load(port: int) -> dict[str, int]:
    """Bytes of a page and of all that it loads, compressed as they are sent."""
    home = f"http://127.0.0.1:{port}/"
    sizes: dict[str, int] = {}
    with httpx.Client() as client:
        for name, address in addresses().items():
            html, size = fetched(client, urljoin(home, address))
            assets = {*ASSET.findall(html), *ICON.findall(html)}
            sizes[name] = size + sum(fetched(client, urljoin(home, one))[1] for one in assets)
    rows = [["page", "first load, kB"]]
    print(table([*rows, *([name, f"{size / 1000:.1f}"] for name, size in sizes.items())]))
    return sizes


def fetched(client: httpx.Client, url: str) -> tuple[str, int]:
    with client.stream("GET", url) as response:
        text = "".join(response.iter_text())
        return text, response.num_bytes_downloaded


def read_along(port: int, readers: int, seconds: float) -> None:
    """Readers who open one page after the other, and look at each for some seconds."""
    until = time.monotonic() + seconds

    def read(seed: int) -> None:
        dice = random.Random(seed)
        with httpx.Client(timeout=60) as client:
            while True:
                time.sleep(dice.expovariate(1 / THINKING_S))  # they do not all begin at once
                if time.monotonic() >= until:
                    return
                address = dice.choice(list(addresses(dice.randrange(200)).values()))
                client.get(f"http://127.0.0.1:{port}{address}")

    _all([lambda seed=seed: read(seed) for seed in range(readers)])


def _all(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def answer_times(times: dict[str, list[float]]) -> dict[str, Any]:
    """p50 and p95 by path, in ms."""
    paths = {entry.path for entry in PAGES.values()}
    found = {
        path: {"requests": len(some), "p50": sorted(some)[len(some) // 2] * 1000,
               "p95": p95(some) * 1000}
        for path, some in sorted(times.items())
        if path in paths
    }  # fmt: skip
    rows = [["path", "requests", "p50 ms", "p95 ms"]]
    for path, one in found.items():
        rows.append([path, str(one["requests"]), f"{one['p50']:.0f}", f"{one['p95']:.0f}"])
    print(table(rows))
    return found


def live(
    store: Store, port: int, process: psutil.Process, viewers: int, seconds: float
) -> dict[str, Any]:
    """Shares of a core, and bytes a viewer and minute, while windows are judged and while nothing
    changes."""
    some = [addresses(n)[name] for n in range(5) for name in ("topic", "topic, one hop")
            if name in addresses()]  # fmt: skip
    mixed = ["/"] * 12 + ["/heatmap"] * (4 if "heatmap" in addresses() else 0) + some[:4]
    open_pages = Viewers(port, [mixed[n % len(mixed)] for n in range(viewers)])
    with repeated(lambda: heartbeats(store), HEARTBEAT_S):
        time.sleep(10)
        found: dict[str, Any] = {"refused": open_pages.refused}
        with judging(store):
            found["judged"] = phase(open_pages, process, seconds)
        time.sleep(40)  # the last windows are shown by then
        found["quiet"] = phase(open_pages, process, seconds)
    open_pages.close()
    rows = [["200 viewers".replace("200", str(viewers)), "share of a core", "kB a viewer, minute"]]
    for name, text in (("judged", "ten windows a second are judged"), ("quiet", "nothing changes")):
        one = found[name]
        rows.append([text, f"{one['share'] * 100:.1f} %", f"{one['kb']:.2f}"])
    print(table(rows))
    return found


def phase(open_pages: Viewers, process: psutil.Process, seconds: float) -> dict[str, float]:
    cpu, sent, began = cpu_seconds(process.pid), sum(open_pages.bytes), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    came = sum(open_pages.bytes) - sent
    return {
        "share": (cpu_seconds(process.pid) - cpu) / took,
        "kb": came / len(open_pages.bytes) / took * 60 / 1000,
    }


@contextmanager
def judging(store: Store) -> Iterator[None]:
    """Ten windows a second become complete meanwhile, of one topic after the other."""
    dice = random.Random(5)

    def judge() -> None:
        window = now_ms() // W * W - 3 * W
        done: list[Verdict] = []
        for _ in range(3):
            number = dice.randrange(200)
            count = dice.randint(1, 800)
            done.append(
                Verdict(edges_of(number)[dice.randrange(2)], topic_name(number), window,
                        State.COMPLETE, claimed=count, observed=count)
            )  # fmt: skip
        with store.write() as connection:
            record_verdicts(connection, done, COLLECTOR, now_ms(), W)

    with repeated(judge, JUDGED_EVERY_S):
        yield


def heartbeats(store: Store) -> None:
    """Collectors commit, and are at the end of every log: that is no change."""
    now = now_ms()
    with store.write() as connection:
        connection.execute(collectors.update().values(heartbeat=now, discovered_through=now))
        connection.execute(progress.update().values(counted_through=now))


@contextmanager
def repeated(work: Callable[[], None], every_s: float) -> Iterator[None]:
    """In a thread, meanwhile."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
