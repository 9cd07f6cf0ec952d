"""k01 Fetch: read record batches, waiting until there are enough bytes.

Served 4-16.

* v4 isolation levels; with no transactions the last stable offset is the high watermark
* v5 the log start offset
* v7 fetch sessions (KIP-227): never opened. The answer carries session id 0, which tells the client
  to name all its partitions each time; a session id that is asked for is not found
* v9 leader epochs fence stale readers (KIP-320)
* v10 zstd; below it a batch of zstd is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v11 the reader's rack is read and ignored: there is one replica
* v12 flexible; a diverging epoch is not told here, OffsetForLeaderEpoch tells it
* v13 topic ids (KIP-516)
* v15 the replica id moves; v16 the new leader's address (KIP-951)

Kept: a long poll is parked without cost and woken by appends. Whole batches are returned, from the
one that holds the offset on; the first batch of an answer comes even if it is larger than asked for
(KIP-74). Records leave as slices of the segment file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from tallymark.broker.fetching import FetchRound, resolve
from tallymark.broker.handlers import Call, register
from tallymark.broker.partition import Partition, watching
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.protocol.messages import FetchRequest, FetchResponse

_MOST_WAIT_MS: Final = 300_000
"""A reader that names a longer wait is answered after this one; it asks again."""


def handle(
    state: BrokerState, request: FetchRequest, call: Call
) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if there is enough, an error or nothing to wait for; else park."""
    if request.session_id != 0:
        return FetchResponse(error_code=CODES["FETCH_SESSION_ID_NOT_FOUND"])
    if request.session_epoch > 0:
        return FetchResponse(error_code=CODES["INVALID_FETCH_SESSION_EPOCH"])
    wanted = resolve(state, request, call.version)
    found = FetchRound(state, request, call.version, wanted)
    if found.complete or request.max_wait_ms <= 0 or state.stopping.is_set():
        return found.response()
    return _wait(state, request, call)


async def _wait(state: BrokerState, request: FetchRequest, call: Call) -> FetchResponse:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(request.max_wait_ms, _MOST_WAIT_MS) / 1000
    while True:
        # Looked up anew each time: a partition may have been deleted, or its topic re-created.
        wanted = resolve(state, request, call.version)
        found_here = [item.found for item in wanted if isinstance(item.found, Partition)]
        with watching(found_here) as event:
            found = FetchRound(state, request, call.version, wanted)
            if found.complete or loop.time() >= deadline or state.stopping.is_set():
                return found.response()
            try:
                async with asyncio.timeout_at(deadline):
                    await event.wait()
            except TimeoutError:
                continue


register(FetchRequest, handle)
