"""Charges quotas: Produce by the size of its request, Fetch by the size of its response.

A response is never delayed. It contains for how long the client is throttled
(``throttle_time_ms``), and the broker reads nothing more from the connection meanwhile (KIP-219).
"""

from __future__ import annotations

import asyncio

from tallymark.broker.security.live import Security
from tallymark.broker.security.quotas import CONSUMER_BYTE_RATE, LONGEST_SECONDS, PRODUCER_BYTE_RATE
from tallymark.net.server.handler import Connection
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader


def charge_quota(
    security: Security, header: RequestHeader, connection: Connection, size: int
) -> int:
    """Charge ``size`` bytes to the client that sent a Produce or Fetch request.

    Returns for how many milliseconds the client is throttled, 0 for not at all. The connection is
    muted for that time.
    """
    if not security.quotas.active:
        return 0
    wait = security.quotas.take(
        connection.principal.removeprefix("User:"),
        header.client_id or "",
        PRODUCER_BYTE_RATE if header.api_key == ApiKey.PRODUCE else CONSUMER_BYTE_RATE,
        size,
        asyncio.get_running_loop().time(),
    )
    if wait <= 0:
        return 0
    wait = min(wait, LONGEST_SECONDS)
    connection.mute(wait)
    security.throttled[header.api_key] += 1
    return max(1, round(wait * 1000))
