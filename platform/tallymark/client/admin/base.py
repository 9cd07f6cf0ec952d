"""The base class of all subjects of Admin: one cluster, one background thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar, Unpack

from tallymark.client.admin.results import K, Outcomes, Results, V
from tallymark.client.admin.routes import (
    AskMany,
    Attempt,
    from_brokers,
    from_coordinators,
    from_leaders,
    settle,
)
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.core.security.security import SecuritySettings, client_security
from tallymark.client.metrics import Metrics
from tallymark.closing import ClosedByWith
from tallymark.errors import ConnectError
from tallymark.net.addresses import Address
from tallymark.protocol.coordinator_partition import GROUP
from tallymark.protocol.topic_partition import TopicPartition

T = TypeVar("T")
_MARGIN: Final = 5.0


class AdminBase(ClosedByWith):
    """Connects, runs, closes."""

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        zookeeper_connect: str | None = None,
        client_id: str = "tallymark-admin",
        request_timeout_ms: float = 30000,
        metrics: Metrics | None = None,
        **security: Unpack[SecuritySettings],
    ) -> None:
        bootstrap = Bootstrap.of(
            bootstrap_servers, zookeeper_connect, client_security(security, type(self))
        )
        self._timeout = request_timeout_ms / 1000
        self._cluster = Cluster(
            bootstrap, client_id, request_timeout=self._timeout, metrics=metrics
        )
        self._io = IoThread(f"admin {client_id}")

    def close(self) -> None:
        """Close the connections. Twice does nothing."""
        if self._io.stopped:
            return
        try:
            self._io.finish(self._cluster.close())
        finally:
            self._io.stop()

    def _run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        # Every attempt has its own deadlines; this one only keeps a bug from hanging the caller.
        return self._io.run(work, 3 * self._timeout + _MARGIN, what)

    def _settle(self, keys: Iterable[K], attempt: Attempt[K, V], what: str) -> Results[K, V]:
        """Repeat ``attempt`` until every key has a result (:func:`~.routes.settle`)."""
        work = settle(self._cluster, keys, attempt, self._timeout)
        results = Results.of(self._run(work, what))
        # A cluster that cannot be reached is one error, not one for each key.
        away = [error for error in results.errors.values() if isinstance(error, ConnectError)]
        if away and not results.done and len(away) == len(results.errors):
            raise away[0]
        return results

    def _of_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: AskMany[TopicPartition, V],
        what: str,
    ) -> Results[TopicPartition, V]:
        """``ask(leader's address, its partitions)``, until every partition has a result."""

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, V]:
            return await from_leaders(self._cluster, pending, ask)

        return self._settle(partitions, attempt, what)

    def _of_coordinators(
        self, keys: Iterable[str], ask: AskMany[str, V], what: str, kind: int = GROUP
    ) -> Results[str, V]:
        """``ask(coordinator's address, its groups)``, until every group has a result; with ``kind``
        TRANSACTION, of transactional ids."""

        async def attempt(pending: list[str]) -> Outcomes[str, V]:
            return await from_coordinators(self._cluster, pending, ask, kind)

        return self._settle(keys, attempt, what)

    def _of_brokers(
        self, brokers: Iterable[int] | None, ask: Callable[[Address], Awaitable[V]], what: str
    ) -> Results[int, V]:
        """``ask(address)`` for each of the brokers (None: all), until every one has a result."""

        async def attempt(pending: list[int]) -> Outcomes[int, V]:
            return await from_brokers(self._cluster, pending, ask)

        if brokers is None:
            self._run(self._cluster.refresh([]), "finding the brokers")
            brokers = sorted(self._cluster.metadata.brokers)
        return self._settle(brokers, attempt, what)
