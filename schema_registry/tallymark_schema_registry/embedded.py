"""The registry as a thread of this process.

The command uses it, and tests can::

    with RegistryServer("sqlite:////tmp/registry.db") as registry:
        RegistryClient(registry.url)
"""

from __future__ import annotations

from pathlib import Path

from tallymark.closing import ClosedByWith
from tallymark.net.web.access import WebAccess
from tallymark.net.web.access_log import AccessLogFile
from tallymark.net.web.connection_bounds import WebLimits
from tallymark.net.web.guard import OwnNames
from tallymark.net.web.server import WebServer, listen
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.store.opening import open_store
from tallymark_schema_registry.web.responses import Profile
from tallymark_schema_registry.web.serving import RegistryOverHttp


class RegistryServer(ClosedByWith):
    """Serves from construction on; ``url`` is where. ``port`` 0 takes a free one. ``profile``:
    whose answers it gives. ``access`` says how it is secured.

    Raises UserError if the store cannot be opened or the port cannot be had.
    """

    def __init__(
        self,
        store: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        access_log: Path | None = None,
        cluster_id: str = "",
        profile: Profile = Profile.SEVEN,
        access: WebAccess | None = None,
        limits: WebLimits | None = None,
    ) -> None:
        listener = listen(host, port, "the registry", "registry.port")
        self._access_log: AccessLogFile | None = None
        try:
            self._access_log = AccessLogFile(access_log) if access_log else None
            access = access or WebAccess(OwnNames((host,)))
            served = RegistryOverHttp(
                Registry(open_store(store)),
                access,
                cluster_id=cluster_id,
                profile=profile,
                log=self._access_log,
            )
            self.url = f"{access.scheme}://{host}:{listener.getsockname()[1]}"
            self._server = WebServer(
                *(served.app, listener, "schema-registry"),
                tls=access.tls,
                limits=limits,
                http=served.http,
            )
            served.quota = self._server.quota
        except BaseException:
            listener.close()
            self._close_log()
            raise

    def check(self) -> None:
        """Raises if the server's thread is gone."""
        self._server.check()

    def close(self) -> None:
        """Finish the requests that are being answered, then stop. Idempotent."""
        self._server.close()
        self._close_log()

    def _close_log(self) -> None:
        if self._access_log:
            self._access_log.close()
            self._access_log = None
