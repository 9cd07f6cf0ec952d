"""Asking the coordinator of a transactional id or of a group, wherever it is now."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from tallymark.client.core.cluster import Cluster
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol.coordinator_partition import GROUP, TRANSACTION
from tallymark.protocol.messages import FindCoordinatorRequest
from tallymark.protocol.schema import Message, Request

__all__ = ["GROUP", "TRANSACTION", "CoordinatorFinder"]
R = TypeVar("R", bound=Message)
_MOVED: Final = frozenset(
    CODES[name] for name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT")
)


class CoordinatorFinder:
    """Coordinators are found once and forgotten when they have moved or do not answer. Lives in
    the I/O thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[tuple[int, str], Address] = {}

    async def ask(
        self, kind: int, key: str, message: Request[R], at_most: int, deadline: float
    ) -> R:
        """Send one request to the coordinator of ``key``, in the highest common version up to
        ``at_most``. Waits until ``deadline`` (the loop's time) at the latest. Raises ConnectError,
        KafkaError."""
        address = self._found.get((kind, key))
        if address is None:
            address = self._found[kind, key] = await self._find(kind, key)
        stream = await self._cluster.connections.get(address)
        left = deadline - asyncio.get_running_loop().time()
        timeout = max(0.001, min(self._cluster.request_timeout, left))
        return await stream.request(
            message, stream.version_of(type(message), at_most), timeout=timeout
        )

    def failed(self, kind: int, key: str, error: TallymarkError) -> None:
        """It answered with this, or not at all: find it anew where that may help."""
        moved = isinstance(error, KafkaError) and (error.code in _MOVED or error.stale_metadata)
        if moved or isinstance(error, ConnectError):
            self._found.pop((kind, key), None)

    async def _find(self, kind: int, key: str) -> Address:
        # Old and new form in one: each version sends the fields it has.
        answer = await self._cluster.ask_any(
            FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=(key,))
        )
        what = "group" if kind == GROUP else "transactional id"
        for one in answer.coordinators or (answer,):
            if one.error_code:
                text = f"the coordinator of {what} {key}"
                why = f"{text}: {one.error_message}" if one.error_message else text
                raise KafkaError(one.error_code, why)
            return Address(one.host, one.port)
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], f"{what} {key}")
