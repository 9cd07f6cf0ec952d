"""``tallymark dashboards``: the pages and the API on a server in a thread."""

from __future__ import annotations

from contextlib import ExitStack

from tallymark.client.core.security.http import http_access
from tallymark.deployment import Deployment
from tallymark.net.web.access_log import AccessLog, AccessLogFile
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.store import open_store
from tallymark_dashboards.app import create_app


class DashboardServer:
    """Serves the dashboards until :meth:`close`. UserError when the port is taken or the store
    cannot be opened."""

    def __init__(self, deployment: Deployment) -> None:
        settings = deployment.dashboards
        access = http_access(
            deployment.security,
            "the dashboards",
            settings.host,
            settings.allow_plaintext,
            "dashboards.allow_plaintext = true",
            (settings.advertised_host, deployment.audit.alerts.console_url),
        )
        with ExitStack() as undo:
            listener = undo.enter_context(
                listen(settings.host, settings.port, "the dashboards", "dashboards.port")
            )
            self._store = undo.enter_context(open_store(deployment.audit_store))
            self._access = AccessLogFile(deployment.log_dir / "dashboards-access.log")
            undo.callback(self._access.close)
            self._app = create_app(deployment, self._store)
            app = AccessLog(access.around(self._app), self._access)
            self._server = WebServer(app, listener, "dashboards", tls=access.tls)
            undo.pop_all()

    def check(self) -> None:
        """Raise when the server has died."""
        self._server.check()

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._app.state.context.changes.stopping.set()
        self._app.state.audit_api.waits.stop()
        self._server.close()
        self._access.close()
        self._store.close()
