"""The HTTP endpoint for monitoring: ``/metrics`` for Prometheus, ``/health`` for load
balancers and supervisors.

``/health`` is 200 while the broker serves, else 503::

    {"status": "starting" | "ready" | "stopping", "node_id": 0, "offline_log_dirs": []}
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from socket import gethostname

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tallymark.broker.monitoring.families import families
from tallymark.broker.monitoring.loop_lag import LoopLag
from tallymark.broker.monitoring.metric import PREFIX
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.state import BrokerState
from tallymark.net.addresses import Address, is_loopback
from tallymark.net.tls.contexts import server_context
from tallymark.net.web.access import WebAccess, check_exposed
from tallymark.net.web.guard import OwnNames
from tallymark.net.web.login import BasicLogin
from tallymark.net.web.metrics_http import MetricsServer, Page

log = logging.getLogger(__name__)

STATES = ("starting", "ready", "stopping")


class MetricsEndpoint:
    """Serves both pages unless ``metrics.port`` is -1. ``state`` is None until the broker has
    opened its logs."""

    def __init__(self, settings: BrokerSettings, state: Callable[[], BrokerState | None]) -> None:
        self._settings = settings
        self._state = state
        self._server: MetricsServer | None = None
        self._lag = LoopLag()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    @property
    def address(self) -> Address | None:
        """The address it listens on, None where it is off."""
        return None if self._server is None else self._server.address

    async def start(self) -> None:
        """Listen, unless it is off. UserError where the address cannot be used."""
        if self._settings.metrics_port >= 0:
            routes = {"/metrics": self._metrics, "/health": self._health}
            server = MetricsServer(routes, self._access())
            await server.start(self._settings.metrics_host, self._settings.metrics_port)
            self._server = server
            self._lag.start()

    async def stop(self) -> None:
        """Stop listening. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            await self._lag.stop()
            await server.stop()

    def _access(self) -> WebAccess:
        """On loopback no log-in is needed; elsewhere the broker's users log in, over its TLS."""
        settings = self._settings
        host = settings.metrics_host
        access = WebAccess(OwnNames((host, gethostname(), *_advertised(settings))))
        if settings.ssl_keystore_location and not is_loopback(host):
            keystore = Path(settings.ssl_keystore_location)
            tls = server_context(keystore, settings.ssl_key_password)
            access = WebAccess(access.names, tls, BasicLogin(_BrokerUsers(self._state)))
        allowed = settings.listeners_allow_plaintext
        check_exposed("/metrics", host, access, allowed, "listeners.allow.plaintext=true")
        return access

    def _status(self) -> str:
        state = self._state()
        if state is None or not (state.serving.is_set() or state.stopping.is_set()):
            return "starting"
        return "stopping" if state.stopping.is_set() else "ready"

    async def _health(self) -> Page:
        state, status = self._state(), self._status()
        logs = None if state is None else state.logs
        body = {
            "status": status,
            "node_id": self._settings.node_id,
            "offline_log_dirs": sorted(logs.offline_dirs) if logs is not None else [],
        }
        code = HTTPStatus.OK if status == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(code, "application/json", json.dumps(body).encode() + b"\n")

    async def _metrics(self) -> Page:
        state, status = self._state(), self._status()
        status_family = GaugeMetricFamily(
            f"{PREFIX}status", "What the broker does: 1 at one of these.", labels=("status",)
        )
        for name in STATES:
            status_family.add_metric((name,), name == status)
        lag = GaugeMetricFamily(
            f"{PREFIX}loop_lag_seconds",
            "How late the event loop was at worst in the last minute.",
            value=self._lag.worst,
        )
        found: list[Metric] = [status_family, lag]
        if state is not None:
            found += await families(state)
        # Reading /proc and writing the text takes milliseconds, and uses no state of the broker.
        body = await asyncio.to_thread(generate_latest, _Scrape(found, self._process))
        return Page(HTTPStatus.OK, CONTENT_TYPE_LATEST, body)


class _BrokerUsers:
    """The users that log in at the broker's listeners."""

    def __init__(self, state: Callable[[], BrokerState | None]) -> None:
        self._state = state

    @property
    def version(self) -> object:
        """See :class:`~tallymark.net.web.login.Passwords`."""
        state = self._state()
        return None if state is None else state.security.users

    def knows(self, name: str) -> bool:
        """See :class:`~tallymark.net.web.login.Passwords`."""
        state = self._state()
        return state is not None and state.security.users.password_credential(name) is not None

    def fits(self, name: str, password: str) -> bool:
        """See :class:`~tallymark.net.web.login.Passwords`."""
        state = self._state()
        return state is not None and state.security.users.fits(name, password)


def _advertised(settings: BrokerSettings) -> list[str]:
    texts = settings.advertised_listeners.split(",")
    return [text.partition("://")[2] for text in texts] + [settings.advertised_host_name]


class _Scrape(Collector):
    """One scrape: the metrics of the broker, and those of the process."""

    def __init__(self, found: Sequence[Metric], process: CollectorRegistry) -> None:
        self._found = found
        self._process = process

    def collect(self) -> Iterator[Metric]:
        yield from self._found
        yield from self._process.collect()
