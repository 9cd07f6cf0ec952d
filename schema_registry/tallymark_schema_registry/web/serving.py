"""One registry over HTTP, put together: application, guard, access log, front, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.web.access import WebAccess
from tallymark.net.web.access_log import AccessLog
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.app import create_app
from tallymark_schema_registry.web.asgi import App
from tallymark_schema_registry.web.front.serving import make_front, protocol_of
from tallymark_schema_registry.web.metrics.counts import CountRequests, RequestCounts
from tallymark_schema_registry.web.metrics.page import Snapshot, page
from tallymark_schema_registry.web.responses import Profile


class RegistryOverHttp:
    """What a server needs: ``app`` and ``http``, the protocol of its connections (None: that of all
    servers). ``quota`` is the server's, set when that has started. ``log`` takes the lines of the
    access log."""

    def __init__(
        self,
        registry: Registry,
        access: WebAccess,
        *,
        cluster_id: str = "",
        profile: Profile = Profile.SEVEN,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.quota: ConnectionQuota | None = None
        self._registry: Final = registry
        self._counts = RequestCounts()
        self._front = make_front(registry, access, self._counts, log)
        self.http = protocol_of(self._front)
        app: App = create_app(registry, cluster_id, profile, self.metrics_page)
        app = CountRequests(access.around(app), self._counts)
        self.app = app if log is None else AccessLog(app, log)

    def metrics_page(self) -> bytes:
        """What ``GET /metrics`` answers."""
        front, quota = self._front, self.quota
        snapshot = Snapshot(
            self._registry.catalog,
            connections=quota.open if quota else 0,
            refused_connections=quota.refused if quota else 0,
            from_memory=front.given if front else 0,
            memory_bytes=front.memory.size if front else 0,
            writes_waiting=self._registry.writes_waiting,
            store_is_down=self._registry.store_is_down,
        )
        return page(snapshot, self._counts)
