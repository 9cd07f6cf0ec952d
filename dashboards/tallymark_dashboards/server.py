"""``tallymark dashboards``: the pages and the API on a server in a thread."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tallymark.client.core.security.http import http_access
from tallymark.deployment import Deployment
from tallymark.net.web.access_log import AccessLog, AccessLogFile
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.store import open_store
from tallymark_dashboards.access.forwarded import Forwarded
from tallymark_dashboards.access.identity import TrustedProxy
from tallymark_dashboards.access.login import login_of
from tallymark_dashboards.actions.desk import RepairDesk
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.live.standby import Standby
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.watch import Watch


class DashboardServer:
    """Serves the dashboards until :meth:`close`; ``path`` is that of the settings file, if there is
    one, for processes that a repair starts and for the commands on pages. UserError when the port
    is taken or the store cannot be opened."""

    def __init__(self, deployment: Deployment, path: str | None = None) -> None:
        settings = deployment.dashboards
        access = http_access(
            deployment.security,
            "the dashboards",
            settings.host,
            settings.allow_plaintext,
            "dashboards.allow_plaintext = true",
            (settings.advertised_host, deployment.audit.alerts.console_url),
            login_of(deployment),
        )
        with ExitStack() as undo:
            listener = undo.enter_context(
                listen(settings.host, settings.port, "the dashboards", "dashboards.port")
            )
            self._store = undo.enter_context(open_store(deployment.audit_store))
            self._access = AccessLogFile(deployment.log_dir / "dashboards-access.log")
            undo.callback(self._access.close)
            snapshots = Snapshots.of(deployment)
            self._watch = Watch(deployment, snapshots)
            undo.callback(self._watch.close)
            told = str(Path(path).absolute()) if path else ""
            desk = RepairDesk(deployment, self._store, path)
            desk.end_abandoned()
            self._app = create_app(deployment, self._store, snapshots, desk, told)
            outside = Forwarded(access.around(self._app), TrustedProxy(settings.proxy))
            app = AccessLog(outside, self._access)
            self._server = WebServer(app, listener, "dashboards", tls=access.tls)
            state = self._app.state
            self._standby = Standby(state.renderings, state.context.prefix)
            self._watch.start()
            self._standby.start()
            undo.pop_all()

    def check(self) -> None:
        """Raise when the server has died."""
        self._server.check()

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._standby.close()
        self._app.state.hub.stop()
        self._app.state.audit_api.waits.stop()
        self._app.state.context.peeks.close()
        self._server.close()
        self._watch.close()
        self._access.close()
        self._app.state.renderings.close()
        self._store.close()
