"""One connection per broker, opened when it is first needed, and again after it broke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tallymark.client.core import supervised
from tallymark.client.core.security.security import PLAINTEXT, ClientSecurity
from tallymark.client.metrics import Metrics, StreamMeter
from tallymark.errors import ClosedError, ConnectError, KafkaError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connect import connect

FIRST_BACKOFF: Final = 0.05
LONGEST_BACKOFF: Final = 1.0


@dataclass(slots=True)
class _Entry:
    stream: BrokerConnection | None = None
    opening: asyncio.Task[BrokerConnection] | None = None
    opened: int = 0
    error: ConnectError | None = None
    backoff: float = 0.0
    not_before: float = 0.0


class Connections:
    """The connections of one client, by address. Lives in one event loop."""

    def __init__(
        self,
        client_id: str,
        connect_timeout: float = 10.0,
        security: ClientSecurity = PLAINTEXT,
        metrics: Metrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._client_id = client_id
        self._security = security
        self._timeout = connect_timeout
        self._entries: dict[Address, _Entry] = {}
        self._closed = False
        self.verify: Callable[[BrokerConnection], Awaitable[None]] | None = None
        """Called with every new connection to an address that had one before: another server may
        listen there now. If it raises a ConnectError, the connection is not used."""
        self.origin: Callable[[Address], str] = lambda address: ""
        """Returns where an address comes from, for the error about an address that does not
        answer."""

    def ready(self, address: Address) -> BrokerConnection | None:
        """The open connection to ``address``; None when there is none now."""
        entry = self._entries.get(address)
        if entry is None or entry.stream is None or entry.stream.closed:
            return None
        return entry.stream

    def generation(self, address: Address) -> int:
        """How often a connection to ``address`` has been opened: after a change the broker may have
        restarted."""
        entry = self._entries.get(address)
        return entry.opened if entry else 0

    def open_streams(self) -> list[BrokerConnection]:
        """All open connections."""
        found = (self.ready(address) for address in list(self._entries))
        return [stream for stream in found if stream is not None]

    async def get(self, address: Address) -> BrokerConnection:
        """The connection to ``address``, opened if need be (once for all callers).

        Raises ConnectError. For a short time after a failure it raises at once, without trying, so
        that the retry loops of many callers do not become connection storms.
        """
        if self._closed:
            raise ClosedError("the client has been closed")
        stream = self.ready(address)
        if stream is not None:
            return stream
        entry = self._entries.setdefault(address, _Entry())
        if entry.opening is None:
            if entry.error is not None and asyncio.get_running_loop().time() < entry.not_before:
                raise entry.error
            entry.opening = supervised.start(self._open(address, entry), "opening a connection")
        return await asyncio.shield(entry.opening)

    async def _verify(
        self, verify: Callable[[BrokerConnection], Awaitable[None]], stream: BrokerConnection
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await verify(stream)
        except (KafkaError, TimeoutError) as error:
            stream.abort()
            raise ConnectError(str(stream.address), "api", f"no answer: {error}") from error
        except BaseException:
            stream.abort()
            raise

    async def close(self) -> None:
        """Close all connections; requests that were written get a moment to be sent."""
        self._closed = True
        opening = [entry.opening for entry in self._entries.values() if entry.opening]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        streams = [entry.stream for entry in self._entries.values() if entry.stream]
        await asyncio.gather(*(stream.close() for stream in streams))

    async def _open(self, address: Address, entry: _Entry) -> BrokerConnection:
        began = asyncio.get_running_loop().time()
        try:
            if entry.stream is not None:
                await entry.stream.close()
            stream = await connect(
                address.host,
                address.port,
                self._timeout,
                client_id=self._client_id,
                tls=self._security.tls,
                sasl=self._security.sasl,
            )
            if self._metrics is not None:
                stream.meter = StreamMeter(self._metrics, address)
            if self.verify is not None and entry.opened:
                await self._verify(self.verify, stream)
        except ConnectError as error:
            error.add(self.origin(address))
            if self._metrics is not None:
                labels = {"broker": str(address), "stage": error.stage}
                self._metrics("connect_errors", 1, labels)
            entry.error = error
            entry.backoff = min(LONGEST_BACKOFF, entry.backoff * 2 or FIRST_BACKOFF)
            entry.not_before = asyncio.get_running_loop().time() + entry.backoff
            raise
        else:
            entry.stream, entry.error, entry.backoff = stream, None, 0.0
            entry.opened += 1
            if self._metrics is not None:
                took = asyncio.get_running_loop().time() - began
                self._metrics("connect_seconds", took, {"broker": str(address)})
            return stream
        finally:
            entry.opening = None
