"""Pictures of every page of a prepared store, in the light and in the dark: ``make screenshots``.

``python tests/support/dashboards/screenshots.py FOLDER [--width 360] [--stopped dc2] [PATH ...]``
takes other widths, a store whose collector has stopped, and only these pages.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import Final, Literal
from unittest.mock import patch
from urllib.parse import urlencode

from fastapi import FastAPI
from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from prepared_clusters import cluster, registry, snapshots
from prepared_store import HOSTILE, Prepared, deployment_in, prepare, unclean_election

from tallymark.clock import now_ms
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.live import renderings
from tallymark_dashboards.snapshots.holder import Snapshots

CHROMIUM: Final = shutil.which("chromium") or "chromium"
COLOURS: Final = 128
HIGHEST: Final = 2600
"""Pixels; what is below is more rows of the same table."""
UNCLEAN: Final = "unclean"
"""The picture of what is below the heading with that id, and no page of its own."""
ABOVE: Final = 12
"""Pixels above the part of a page."""
FRESH_S: Final = 5.0
OLDEST_MS: Final = 20_000
"""So long after it was prepared a store looks as it did."""
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def main() -> None:
    """Write FOLDER/<page>-<theme>.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--stopped", default="")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--theme", choices=THEMES, action="append")
    asked = parser.parse_args()
    logging.disable()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with (
        served(asked.stopped, hostile=asked.hostile, fresh=True) as (url, prepared),
        sync_playwright() as p,
    ):
        pages = addresses(prepared)
        chosen = {_name(path): path for path in asked.paths if path != UNCLEAN}
        chosen = chosen if asked.paths else pages
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme in asked.theme or THEMES:
            size = ViewportSize(width=asked.width, height=900)
            page = browser.new_context(viewport=size, color_scheme=theme).new_page()
            for name, path in chosen.items():
                address = url + (pages.get(path) or f"/{path.lstrip('/')}")
                take(page, address, asked.folder / f"{name}-{theme}.png")
        if not asked.paths or UNCLEAN in asked.paths:
            unclean_election(prepared)  # after the others, whose pictures do not have it
            for theme in asked.theme or THEMES:
                size = ViewportSize(width=asked.width, height=900)
                page = browser.new_context(viewport=size, color_scheme=theme).new_page()
                path = asked.folder / f"{UNCLEAN}-{theme}.png"
                take(page, f"{url}/clusters", path, part=UNCLEAN)
        browser.close()


def addresses(prepared: Prepared) -> dict[str, str]:
    """The address of each page that is registered, on what has happened in the prepared store."""
    place = {"edge": "dc1-to-aggregate", "topic": "orders"}
    return {
        "overview": "/",
        "incidents": "/incidents",
        "incident": "/incident?id=1",
        "topic": f"/topic?{urlencode(place)}",
        "heatmap": "/heatmap",
        "window": f"/window?{urlencode({**place, 'window': prepared.repaired})}",
        "groups": "/groups",
        "group": "/group?cluster=dc1&group=fraud-detection",
        "clusters": "/clusters",
        "schemas": "/schemas",
        "schema": "/schema?subject=clicks-value",
        "messages": "/messages",
        "runs": "/runs",
        "alerts": "/alerts",
        "wall": "/wall",
        "missing": f"/topic?topic={HOSTILE[0]}",
    }


@contextmanager
def served(
    stopped: str = "",
    *,
    hostile: bool = False,
    now: int = 0,
    hours: int = 24,
    fresh: bool = False,
) -> Iterator[tuple[str, Prepared]]:
    """The dashboards of a prepared store and of prepared clusters, and their address. ``now``
    (ms): as of when they were prepared, if not now; else the pages show them as of then, however
    long it takes (nothing is judged any more, and after a minute every page said so). ``hours``:
    of clean windows. ``fresh``: clusters stay as of now, as if brokers answered, however long it
    takes."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = deployment_in(Path(folder))
        with open_store(deployment.audit_store) as store:
            ages = nullcontext() if now else _pages_as_of(now_ms())
            now = now or now_ms()
            prepared = prepare(
                store, deployment, now, hours=hours, stopped=stopped, hostile=hostile
            )
            found = snapshots(now)
            app = create_app(deployment, store, found)
            with ages, serving(app) as url, _kept_fresh(found) if fresh else nullcontext():
                yield url, prepared


@contextmanager
def _pages_as_of(now: int) -> Iterator[None]:
    def capped() -> int:
        return min(now_ms(), now + OLDEST_MS)

    with patch.object(renderings, "now_ms", capped):
        yield


@contextmanager
def _kept_fresh(found: Snapshots) -> Iterator[None]:
    done = Event()

    def keep() -> None:
        while not done.wait(FRESH_S):
            now = time.time_ns() // 1_000_000
            for name in [one.name for one in found.clusters]:
                found.put(cluster(name, now))
            found.put_registry(registry(now))

    thread = Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def served_new() -> Iterator[str]:
    """The dashboards just after the installation: nothing has run yet."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = deployment_in(Path(folder))
        with (
            open_store(deployment.audit_store) as store,
            serving(create_app(deployment, store)) as url,
        ):
            yield url


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The address of the dashboards while they are served."""
    listener = listen("127.0.0.1", 0, "the dashboards", "dashboards.port")
    server = WebServer(app, listener, "dashboards")
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        app.state.hub.stop()
        server.close()
        app.state.renderings.close()


def take(page: Page, url: str, path: Path, part: str = "") -> None:
    """One picture of the whole page, with few colours, so that it is small. ``part``: from the
    element with that id on."""
    page.goto(url, wait_until="load")
    page.wait_for_timeout(300)
    page.screenshot(path=path, full_page=True)
    picture = Image.open(path).convert("RGB")
    box = page.locator(f"#{part}").bounding_box() if part else None
    top = int(box["y"]) - ABOVE if box else 0
    picture = picture.crop((0, top, picture.width, min(picture.height, top + HIGHEST)))
    picture.quantize(COLOURS).save(path, optimize=True)


def _name(path: str) -> str:
    return path.strip("/").partition("?")[0].replace("/", "-") or "overview"


if __name__ == "__main__":
    main()
