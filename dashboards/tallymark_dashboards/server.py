"""``tallymark dashboards``: uvicorn in a thread, so that the process stops as all others do."""

from __future__ import annotations

import threading
import time

import uvicorn

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.net.access_log import AccessLog, AccessLogFile
from tallymark_audit.store import open_store
from tallymark_dashboards.app import create_app

START_SECONDS = 20.0


class DashboardServer:
    """Serves the dashboards until :meth:`close`. UserError when the port is taken or the store
    cannot be opened."""

    def __init__(self, deployment: Deployment) -> None:
        settings = deployment.dashboards
        self._store = open_store(deployment.audit_store)
        self._access = AccessLogFile(deployment.log_dir / "dashboards-access.log")
        self._app = create_app(deployment, self._store)
        config = uvicorn.Config(
            AccessLog(self._app, self._access),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # ours do
        self._thread = threading.Thread(target=self._server.run, name="uvicorn", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.close()
                raise UserError(
                    f"the dashboards cannot listen on {settings.host}:{settings.port}",
                    "another program has the port: change [dashboards] port in the settings",
                )
            time.sleep(0.02)

    def check(self) -> None:
        """Raise when the server has died."""
        if not self._thread.is_alive():
            raise UserError("the dashboards' server ended", "see the log above")

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._app.state.context.changes.stopping.set()
        self._app.state.audit_api.waits.stop()
        self._server.should_exit = True
        self._thread.join(10)
        self._access.close()
        self._store.close()
