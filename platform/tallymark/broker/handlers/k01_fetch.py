"""k01 Fetch: read record batches, waiting until there are enough bytes.

Served 4-16.

* v4 isolation levels; with no transactions the last stable offset is the high watermark, and no
  transaction was aborted
* v5 the log start offset
* v7 fetch sessions (KIP-227): :mod:`tallymark.broker.fetch_sessions`
* v9 leader epochs fence stale readers (KIP-320)
* v10 zstd; below it a batch of zstd is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v11 the reader's rack is read and ignored: there is one replica
* v12 flexible; a reader that names the epoch of what it read last is told where that diverges from
  the log (KIP-595)
* v13 topic ids (KIP-516)
* v15 the replica id moves; v16 the new leader's address (KIP-951)

Kept: READ on the topic is asked for. A long poll is parked without cost and woken by appends. Whole
batches are returned, from the one that holds the offset on; the first batch of an answer comes even
if it is larger than asked for (KIP-74). Large pieces leave as slices of the segment file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from secrets import randbelow
from typing import Final

from tallymark.broker.requests.fetch_parked import Fetching, park
from tallymark.broker.requests.fetch_response import refused
from tallymark.broker.requests.fetch_round import FetchRound
from tallymark.broker.requests.registry import register_raw
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import FetchRequest
from tallymark.protocol.wire.fetch import read_fetch

_LAST_ID: Final = 2**31 - 1


def handle(
    state: BrokerState, body: memoryview, header: RequestHeader, connection: Connection
) -> Answer | Awaitable[Answer]:
    """Answer at once if there is enough, an error or nothing to wait for; else park."""
    request = read_fetch(body, header.api_version)
    now_ms = state.now_ms()
    try:
        session = state.fetch_sessions.continued(request, header.api_version, now_ms)
    except KafkaError as error:
        return refused(header, error.code)
    opening = session is None and request.session_epoch == 0
    fetching = Fetching(
        state, connection, header, request, session, randbelow(_LAST_ID) + 1 if opening else 0
    )
    found = fetching.look(wait=False)
    if found.cold:
        return _warmed(fetching, found)
    return _enough(fetching, found) or park(fetching)


async def _warmed(fetching: Fetching, found: FetchRound) -> Answer:
    """An old segment's indexes are read beside the event loop: they are megabytes."""
    await asyncio.to_thread(found.warm)
    return _enough(fetching, fetching.look()) or await park(fetching)


def _enough(fetching: Fetching, found: FetchRound) -> Answer:
    """The answer, where there is nothing to wait for."""
    state, request = fetching.state, fetching.request
    if found.complete or request.max_wait_ms <= 0 or state.stopping.is_set():
        return fetching.answer(found)
    return None


register_raw(FetchRequest, handle)
