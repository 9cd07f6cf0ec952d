"""The listeners of a running broker: a server for each, one connection quota for all."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import replace
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Final

from tallymark.broker.security.sasl_gate import TOKENS, SaslGate
from tallymark.broker.security.sasl_logins import Logins
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.listeners import Endpoint, Listener, endpoints, off_loopback
from tallymark.errors import UserError
from tallymark.net.addresses import Address
from tallymark.net.limits.accept_queue import FEW_ACCEPTS, WAITING
from tallymark.net.limits.connection_quota import (
    ConnectionQuota,
    connections_allowed,
    is_scarce,
)
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.net.server.handler import Handler, OnClose
from tallymark.net.server.limits import ServerLimits
from tallymark.net.server.server import ABANDON, Server
from tallymark.net.tls.contexts import server_context
from tallymark.net.tls.principals import PrincipalRules

log: Final = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 60.0
"""Time to log in: as PostgreSQL's authentication_timeout. A delayed refusal is sent sooner."""


class Listeners:
    """Starts and stops the listeners of ``settings``; requests go to ``handler``;
    ``on_close`` hears of each connection that has ended."""

    def __init__(
        self,
        settings: BrokerSettings,
        handler: Handler,
        logins: Logins,
        on_close: OnClose | None = None,
    ) -> None:
        self._descriptors = getrlimit(RLIMIT_NOFILE)[0]
        self.quota = ConnectionQuota(1)
        self.take_limits(settings)
        most = settings.queued_max_request_bytes
        self._request_memory = RequestMemory(None if most < 0 else most)
        self.servers: dict[str, Server] = {}
        """The servers, by the listener's name."""
        self._settings = settings
        self._handler = handler
        self._logins = logins
        self._on_close = on_close

    def take_limits(self, settings: BrokerSettings) -> None:
        """Apply the limits of connections from ``settings``, lowered where descriptors are
        scarce."""
        asked = settings.max_connections
        allowed = connections_allowed(asked, self._descriptors)
        if allowed < asked and allowed != self.quota.max_connections:
            usual = asked == BrokerSettings.model_fields["max_connections"].default
            log.log(
                logging.INFO if usual else logging.WARNING,
                "max.connections=%d is more than the descriptors allow: taken=%d descriptors=%d; "
                "raise the limit of open files (ulimit -n, LimitNOFILE)",
                *(asked, allowed, self._descriptors),
            )
        self.quota.max_connections = allowed
        self.quota.max_per_host = settings.max_connections_per_ip

    @property
    def address(self) -> Address:
        """The address of the first listener."""
        return next(iter(self.servers.values())).address

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The addresses that clients get, by the listener's name."""
        listening = [
            replace(listener, port=self.servers[listener.name].address.port)
            for listener in self._settings.listening()
        ]
        return endpoints(listening, self._settings.advertised())

    async def start(self) -> None:
        """Listen. UserError for an address that cannot be used, or an invalid certificate; then no
        listener is open."""
        try:
            for listener in self._settings.listening():
                await self._start(listener)
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, grace: float) -> None:
        """Stop all at the same time; see :meth:`tallymark.net.server.server.Server.stop`."""
        await asyncio.gather(*(server.stop(grace) for server in self.servers.values()))

    def reload_certificates(self) -> None:
        """Read keys and certificates again, for new connections; a file that cannot be used is
        logged, and the old ones stay."""
        for listener in self._settings.listening():
            if listener.tls and listener.name in self.servers:
                try:
                    self.servers[listener.name].tls = self._context(listener)
                except UserError as error:
                    log.error("the certificates stay as they were: %s", error)
                else:
                    log.info("certificates read again listener=%s", listener.name)

    async def _start(self, listener: Listener) -> None:
        settings = self._settings
        limits = ServerLimits(
            max_frame_bytes=settings.socket_request_max_bytes,
            max_small_bytes=settings.socket_request_small_max_bytes,
            idle_timeout=settings.connections_max_idle_ms / 1000,
            request_timeout=settings.request_arrival_max_ms / 1000,
            handshake_timeout=settings.ssl_handshake_timeout_ms / 1000,
            backlog=FEW_ACCEPTS if is_scarce(self._descriptors) else WAITING,
        )
        handler, abandon = self._handler, ABANDON
        if listener.sasl:
            limits = replace(
                limits,
                max_frame_bytes=settings.sasl_server_max_receive_size,
                login_timeout=LOGIN_SECONDS,
            )
            handler, abandon = SaslGate(handler, self._logins), ABANDON | TOKENS
        if off_loopback(listener) and not listener.tls:
            log.warning("%s is open to other machines without TLS", listener)
        server = Server(
            handler,
            limits=limits,
            abandon=abandon,
            listener=listener.name,
            on_close=self._on_close,
            quota=self.quota,
            principals=PrincipalRules(settings.ssl_principal_mapping_rules),
            request_memory=self._request_memory,
        )
        context = self._context(listener) if listener.tls else None
        await server.start(listener.host, listener.port, context)
        self.servers[listener.name] = server

    def _context(self, listener: Listener) -> ssl.SSLContext:
        settings = self._settings
        truststore = settings.ssl_truststore_location
        return server_context(
            Path(settings.ssl_keystore_location),
            settings.ssl_key_password,
            Path(truststore) if truststore else None,
            "none" if listener.sasl else settings.ssl_client_auth,
        )
