"""The fetcher: one thread that keeps the queues of all streams filled.

Each round asks for all owned partitions whose stream has room, in one call that returns with the
first answer: a broker that is slow or gone holds up its own partitions only. A partition that fails
in a way that passes waits a little, alone; what does not pass ends the connector, and the
application gets the error at its next call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tallymark.client.consuming.async_lookups import AsyncLookups
from tallymark.client.consuming.brokers import BrokerLink, FetchClient
from tallymark.client.consuming.reset import (
    NONE,
    Reset,
    after_out_of_range,
    after_truncation,
    at_first,
    each_at_first,
)
from tallymark.client.consuming.stream import Chunk, Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.message import Gap
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import (
    CODES,
    AuthenticationError,
    ClosedError,
    ConnectError,
    KafkaError,
    LogTruncatedError,
    ProtocolError,
    TimedOutError,
)
from tallymark.protocol.schema import ZERO_UUID

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_IDLE_SECONDS: Final = 0.25
_HURRY_MS: Final = 20
"""The longest wait for data while a partition is left out of the fetch that may be in it soon."""
_LOOKUP_MS: Final = 100
"""The longest wait for data while it is asked where partitions begin."""
_PATIENCE: Final = 5
"""Broken answers in a row before that counts as lasting."""


class _LastingError(Exception):
    """An error that does not pass; it gets through the handlers of those that do."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How to fetch; see :class:`~tallymark.client.connector.connector.ConsumerConnector`."""

    auto_offset_reset: str
    max_bytes: int
    max_wait_ms: int
    retry_backoff_ms: int
    on_gap: Callable[[Gap], None] | None = None
    out_of_range: str = ""
    """The policy for positions that the log does not have; "": auto_offset_reset."""


class FetcherThread:
    """See the module. ``room`` is set by streams that have room again, and by us."""

    def __init__(
        self,
        link: BrokerLink,
        streams: Sequence[Stream],
        gate: Gate,
        room: threading.Event,
        settings: FetchSettings,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._link = link
        self._streams = streams
        self._gate = gate
        self._room = room
        self._settings = settings
        self._on_error = on_error
        self._work: Sequence[PartitionProgress] = ()
        self._stopping = False
        self._failures = 0
        self._resets = AsyncLookups(room)
        self._thread = threading.Thread(target=self._run, name="tallymark-fetcher", daemon=True)

    def start(self) -> None:
        """Start the thread; it idles until there is work."""
        self._thread.start()

    def assign(self, work: Sequence[PartitionProgress]) -> None:
        """Fetch these from now on. What is in flight for others is dropped by their streams."""
        self._work = work
        self._room.set()

    def wake(self) -> None:
        """Look again at once: the gate opened."""
        self._room.set()

    def stop(self) -> None:
        """End the thread soon; closing the link ends a fetch that waits."""
        self._stopping = True
        self._room.set()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; whether it has ended."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
        except Exception as error:
            if not self._stopping:
                self._on_error(error.error if isinstance(error, _LastingError) else error)
        finally:
            self._resets.close()

    def _round(self) -> None:
        self._room.clear()
        try:
            self._settle_positions()
            owned = [item for item in self._work if item.active]
            now = time.monotonic()
            ready = [item for item in owned if self._may_fetch(item, now)]
            client = self._link.client() if self._gate.is_open and ready else None
            if client is None:  # nothing to fetch, or no broker is known yet
                again = (i.retry_at - now for i in owned if i.retry_at > now)
                self._room.wait(min(_IDLE_SECONDS, *again, _IDLE_SECONDS))
                return
            self._fetch(client, ready, self._longest_wait_ms(owned))
            self._failures = 0
        except (ConnectError, TimedOutError, KafkaError, ProtocolError, ClosedError) as error:
            self._call_failed(error)

    def _longest_wait_ms(self, owned: Sequence[PartitionProgress]) -> int:
        longest = self._settings.max_wait_ms
        if self._resets:
            longest = min(longest, _LOOKUP_MS)
        if any(not self._streams[item.stream].has_room for item in owned):
            longest = min(longest, _HURRY_MS)
        return longest

    def _may_fetch(self, item: PartitionProgress, now: float) -> bool:
        has_room = self._streams[item.stream].has_room
        return has_room and item.retry_at <= now and item not in self._resets

    def _settle_positions(self) -> None:
        """Go where the reset policy has said."""
        for item, answer in self._resets.answers():
            if not item.active:
                continue
            try:
                if (reset := answer.result()) is not None:
                    self._reset(item, reset)
            except KafkaError as error:
                self._wait_or_raise(item, error)
            except (TimedOutError, ConnectError) as error:
                if isinstance(error, AuthenticationError):
                    raise
                self._pause(item)

    def _fetch(
        self, client: FetchClient, items: Sequence[PartitionProgress], max_wait_ms: int
    ) -> None:
        asked = [(item, item.fetch) for item in items if item.fetch is not None]
        self._begin(client, [item for item in items if item.fetch is None and item.active])
        if not asked:
            return
        answers = _fetch_call(client)(
            [FetchSpec(i.topic, i.partition, at.offset, at.epoch) for i, at in asked],
            max_bytes=self._settings.max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
        )
        for (item, at), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Fetched) and self._is_made_again(item, answer) and at.offset:
                gone = LogTruncatedError(item.topic, item.partition, at.offset, 0)
                self._partition_failed(client, item, at, gone)
            elif isinstance(answer, Fetched):
                self._queue(item, at, answer)
            elif answer is not None:
                self._partition_failed(client, item, at, answer)
        if all(_is_unreachable(answer) for answer in answers):
            self._link.failed()

    def _begin(self, client: FetchClient, items: Sequence[PartitionProgress]) -> None:
        """Find out where to begin: the group has never consumed these."""
        policy = self._settings.auto_offset_reset
        if policy == NONE:  # an error for each, which says where its log begins and ends
            for item in items:
                self._resets.ask(item, partial(at_first, client, item, policy))
        elif items:
            self._resets.ask_together(items, partial(each_at_first, client, policy))

    def _is_made_again(self, item: PartitionProgress, fetched: Fetched) -> bool:
        """Whether the topic is another one since the fetch before: deleted and created again. What
        was read is gone, and offsets below the position are of messages that were not read."""
        before, item.topic_id = (
            item.topic_id,
            item.topic_id if fetched.topic_id == ZERO_UUID else fetched.topic_id,
        )
        return before not in (ZERO_UUID, item.topic_id)

    def _queue(self, item: PartitionProgress, at: Position, fetched: Fetched) -> None:
        item.failures = 0
        if not fetched.batches and fetched.next_offset == at.offset:
            return
        chunk = Chunk(
            item,
            fetched.batches,
            at.offset,
            fetched.next_offset,
            fetched.last_epoch,
            high_watermark=fetched.high_watermark,
            source=fetched.source,
        )
        if self._streams[item.stream].offer(chunk):
            item.fetch = Position(fetched.next_offset, fetched.last_epoch)

    def _partition_failed(
        self, client: FetchClient, item: PartitionProgress, at: Position, error: KafkaError
    ) -> None:
        policy = self._settings.out_of_range or self._settings.auto_offset_reset
        if isinstance(error, LogTruncatedError):
            ask = partial(after_truncation, client, item, at.offset, error, policy)
            self._resets.ask(item, ask)
        elif error.code == CODES["OFFSET_OUT_OF_RANGE"]:
            self._resets.ask(item, partial(after_out_of_range, client, item, at.offset, policy))
        else:
            self._wait_or_raise(item, error)

    def _wait_or_raise(self, item: PartitionProgress, error: KafkaError) -> None:
        """Leave the partition alone for a while; the others go on."""
        self._pause(item)
        corrupt = error.code == CODES["CORRUPT_MESSAGE"] and item.failures >= _PATIENCE
        if corrupt or not error.retriable:
            raise _LastingError(error)
        if item.failures == 10:
            LOG.warning("still trying to fetch: %s", error)

    def _pause(self, item: PartitionProgress) -> None:
        item.failures += 1
        pause = self._settings.retry_backoff_ms * min(item.failures, 10)
        item.retry_at = time.monotonic() + pause / 1000

    def _reset(self, item: PartitionProgress, reset: Reset) -> None:
        if reset.gap is not None:
            self._report(reset.gap)
        elif item.fetch is not None:
            self._pause(item)  # the broker contradicts itself: do not ask in a tight loop
        # Through the queue, so that the stored position moves when the application gets there.
        cut = reset.gap.from_offset if reset.gap and reset.gap.reason == "truncated" else -1
        chunk = Chunk(item, (), reset.offset, reset.offset, -1, cut=cut)
        if self._streams[item.stream].offer(chunk):
            item.fetch = Position(reset.offset)

    def _report(self, gap: Gap) -> None:
        LOG.warning(
            "%s-%d: offsets %d to %d are gone (%s)",
            gap.topic,
            gap.partition,
            gap.from_offset,
            gap.to_offset - 1,
            gap.reason,
        )
        if self._settings.on_gap is not None:
            try:
                self._settings.on_gap(gap)
            except Exception:
                LOG.exception("the on_gap callback failed")

    def _call_failed(self, error: Exception) -> None:
        """The whole call failed: wait and try again, unless that cannot help."""
        if self._stopping:
            return
        self._failures += 1
        lasting = isinstance(error, AuthenticationError) or (
            isinstance(error, KafkaError) and not error.retriable
        )
        broken = isinstance(error, ProtocolError) and self._failures >= _PATIENCE
        if lasting or broken:
            raise error
        if self._failures == 1:
            LOG.warning("cannot fetch, trying on: %s", error)
        self._link.failed()
        self._room.clear()
        self._room.wait(self._settings.retry_backoff_ms * min(self._failures, 10) / 1000)


def _fetch_call(client: FetchClient) -> Callable[..., Sequence[Fetched | KafkaError | None]]:
    """The call that does not wait for slower brokers, if the client has it."""
    call: Callable[..., Sequence[Fetched | KafkaError | None]] | None
    call = getattr(client, "multifetch_ready", None)
    return client.multifetch if call is None else call


def _is_unreachable(answer: Fetched | KafkaError | None) -> bool:
    return isinstance(answer, KafkaError) and answer.code == CODES["NETWORK_EXCEPTION"]
