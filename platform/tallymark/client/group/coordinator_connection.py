"""A group member's way to its coordinator: found by asking any broker, with two connections.

A join or a sync waits at the coordinator until the others are there, and what is sent behind it on
the same connection waits as long; so those two have a connection of their own, and heartbeats and
commits go by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.connections import Connections
from tallymark.client.core.io_thread import IoThread
from tallymark.errors import CODES, KafkaError
from tallymark.net.addresses import Address
from tallymark.protocol.messages import FindCoordinatorRequest
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
T = TypeVar("T")
_MARGIN: Final = 5.0
_UNAUTHORIZED: Final = CODES["TOPIC_AUTHORIZATION_FAILED"]


class CoordinatorConnection:
    """See the module. Coroutines run in its loop; :meth:`run` brings them there from any other
    thread. ``request_timeout`` in seconds."""

    def __init__(self, bootstrap: Bootstrap, settings: ConsumerSettings) -> None:
        self.group = settings.group
        self.request_timeout = settings.request_timeout_ms / 1000
        self.io = IoThread(f"tallymark-group {settings.client_id}")
        self.cluster = Cluster(
            bootstrap,
            settings.client_id,
            request_timeout=self.request_timeout,
            metrics=settings.metrics,
        )
        self._waiting = Connections(
            settings.client_id,
            min(10.0, self.request_timeout),
            bootstrap.security,
            self.cluster.metrics,
        )
        self.coordinator: Address | None = None

    # -- for other threads --------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Run ``work`` in the loop, wait for it. It has deadlines of its own; ours only keeps a bug
        from hanging the caller."""
        return self.io.run(work, 3 * self.request_timeout + _MARGIN, what)

    def close(self) -> None:
        """Close the connections, end the loop; what waits ends with ClosedError. Idempotent."""
        if self.io.stopped:
            return
        try:
            self.io.finish(self._close(), 10.0)
        finally:
            self.io.stop()

    async def _close(self) -> None:
        await self._waiting.close()
        await self.cluster.close()

    # -- in the loop --------------------------------------------------------------------------

    async def find(self) -> None:
        """Find the coordinator. KafkaError COORDINATOR_NOT_AVAILABLE while there is none;
        ConnectError when no broker answers."""
        # Old and new form in one: each version sends the fields it has.
        answer = await self.cluster.ask_any(
            FindCoordinatorRequest(key=self.group, coordinator_keys=(self.group,))
        )
        for one in answer.coordinators or (answer,):
            if one.error_code:
                text = f"group {self.group}"
                raise KafkaError(
                    one.error_code, f"{text}: {one.error_message}" if one.error_message else text
                )
            self.coordinator = Address(one.host, one.port)

    async def ask(
        self,
        build: Callable[[int], Request[R]],
        of: type[Request[R]],
        at_most: int,
        *,
        timeout: float | None = None,
        waits: bool = False,
    ) -> R:
        """Ask the coordinator in the highest common version up to ``at_most``; ``build`` makes the
        request for it. ``waits``: it is one of those that may take long. Finds the coordinator
        where it is not known yet. Raises ConnectError, KafkaError."""
        if self.coordinator is None:
            await self.find()
        address = self.coordinator
        if address is None:
            raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], f"group {self.group}")
        connections = self._waiting if waits else self.cluster.connections
        stream = await connections.get(address)
        version = stream.version_of(of, at_most)
        return await stream.request(
            build(version), version, timeout=timeout or self.request_timeout
        )

    def hang_up(self) -> None:
        """Close the connection of joins and syncs; what still waits there fails."""
        for stream in self._waiting.open_streams():
            stream.abort()

    def forget_coordinator(self) -> None:
        """It did not answer, or has moved: find it before the next request."""
        self.coordinator = None

    async def partitions(self, names: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
        """Topic to partitions, asked for now; topics that do not exist are left out.

        Raises KafkaError TOPIC_AUTHORIZATION_FAILED where one of ``names`` may not be read: a
        group that never gets its messages would not know why.
        """
        if names is not None and not names:
            return {}
        await self.cluster.refresh(names)
        for name in names or ():
            if self.cluster.metadata.error(name) == _UNAUTHORIZED:
                raise KafkaError(_UNAUTHORIZED, f"topic {name}, group {self.group}")
        found = self.cluster.metadata.topics()
        return {
            name: info.partitions for name, info in found.items() if names is None or name in names
        }
