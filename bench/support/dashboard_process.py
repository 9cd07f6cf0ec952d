"""The dashboards of a store in a process of their own, which notes how long each answer took.

    python bench/support/dashboard_process.py STORE TIMES

It prints its port. There is no task that watches the clusters, since there are none. At SIGTERM the
seconds of every answer are written to the file TIMES, as JSON: path -> [seconds, ...].
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from starlette.types import ASGIApp, Receive, Scope, Send

from tallymark.deployment import AuditSettings, DashboardSettings, Deployment
from tallymark.net.web.access_log import AccessLog, AccessLogFile
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app


class Timed:
    """ASGI middleware: seconds from the head of a request to the end of its answer, by path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        began = time.perf_counter()
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            self.seconds[scope["path"]].append(time.perf_counter() - began)


def deployment_of(store: str, folder: Path) -> Deployment:
    """Three clusters, windows of a minute."""
    audit = AuditSettings(store=store, window_ms=60_000)
    return Deployment(data_dir=folder, audit=audit, dashboards=DashboardSettings(port=0))


def main() -> None:
    store, times = sys.argv[1:]
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with TemporaryDirectory() as folder, open_store(store) as opened:
        app = create_app(deployment_of(store, Path(folder)), opened)
        access = AccessLogFile(Path(folder) / "access.log")
        timed = Timed(app)
        listener = listen("127.0.0.1", 0, "the dashboards", "nothing")
        server = WebServer(AccessLog(timed, access), listener, "dashboards")
        print(listener.getsockname()[1], flush=True)
        while not stop.wait(0.5):
            server.check()
        app.state.hub.stop()
        server.close()
        access.close()
        Path(times).write_text(json.dumps(timed.seconds))


if __name__ == "__main__":
    main()
