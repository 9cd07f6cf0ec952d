"""``/metrics`` for Prometheus in a process that has no event loop of its own."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

from tallymark.client.core.io_thread import IoThread
from tallymark.net.addresses import Address
from tallymark.net.web.access import WebAccess
from tallymark.net.web.metrics_http import MetricsServer, Page


class MetricsPage:
    """Serves ``/metrics`` from construction to ``close``: the metrics of ``collector`` and those of
    the process. UserError where the port is taken.

    The collector is called at each scrape, in another thread: the objects it reads must not
    change."""

    def __init__(
        self,
        collector: Collector,
        host: str,
        port: int,
        name: str,
        access: WebAccess | None = None,
    ) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(collector)
        self._server = MetricsServer({"/metrics": self._page}, access)
        self._io = IoThread(name)
        try:
            self._io.run(self._server.start(host, port), 10.0, "opening the metrics")
        except BaseException:
            self._io.stop()
            raise

    @property
    def address(self) -> Address:
        """The address it listens on."""
        return self._server.address

    def close(self) -> None:
        """Stop listening. Twice does nothing."""
        if not self._io.stopped:
            try:
                self._io.run(self._server.stop(), 10.0, "closing the metrics")
            finally:
                self._io.stop()

    async def _page(self) -> Page:
        body = await asyncio.to_thread(generate_latest, self._registry)
        return Page(HTTPStatus.OK, CONTENT_TYPE_LATEST, body)
