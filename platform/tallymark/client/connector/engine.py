"""What runs behind a connector once its streams are wanted: coordination and fetcher."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tallymark.client.connector.group_protocols import GroupProtocol
from tallymark.client.consuming.brokers import BrokerLink
from tallymark.client.consuming.commit import OffsetCommitter
from tallymark.client.consuming.coordination import Parts
from tallymark.client.consuming.fetcher import FetcherThread, FetchSettings
from tallymark.client.consuming.hooks import Hooks
from tallymark.client.consuming.rewind import Rewinder
from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.consuming.stream import Gate, Stream
from tallymark.client.consuming.subscription_state import SubscriptionState
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import TallymarkError

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_LAST_SECONDS: Final = 2.0
_FETCHER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What a connector has before it has streams, and lends to its engine."""

    protocol: GroupProtocol
    link: BrokerLink
    positions: SubscriptionState
    committer: OffsetCommitter
    gate: Gate
    hooks: Hooks
    on_error: Callable[[Exception], None]
    """Called with what ends the threads."""


class Engine:
    """One subscription's streams, and the threads that feed them and own its partitions.
    ``first_stream`` and ``count`` (of streams) as in
    :class:`~tallymark.client.consuming.coordination.Parts`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        shared: Shared,
        subscription: Subscription,
        first_stream: Mapping[str, int],
        count: int,
    ) -> None:
        self._start_seconds = settings.start_timeout_ms / 1000
        self._member = shared.protocol.member
        self._positions = shared.positions
        link, committer, gate = shared.link, shared.committer, shared.gate
        room = threading.Event()
        clear = committer.clear if settings.delivery == "at_most_once" else None
        self.streams = [
            Stream(
                gate,
                room,
                settings.queue_bytes,
                clear,
                settings.consumer_timeout_ms,
                shared.hooks,
                settings.enable_auto_commit,
            )
            for _ in range(count)
        ]
        committer.watch(self.streams)
        fetch_settings = FetchSettings(
            settings.auto_offset_reset,
            settings.fetch_max_bytes,
            settings.fetch_max_wait_ms,
            settings.retry_backoff_ms,
            settings.on_gap,
            settings.range_policy,
        )
        self._fetcher = FetcherThread(
            link, self.streams, gate, room, fetch_settings, shared.on_error
        )
        self.rewinder = Rewinder(link, shared.positions, self.streams, self._fetcher)
        self.coordination = shared.protocol.coordinate(
            Parts(
                subscription=subscription,
                streams=self.streams,
                first_stream=first_stream,
                gate=gate,
                link=link,
                fetcher=self._fetcher,
                positions=shared.positions,
                committer=committer,
                before_release=settings.before_release,
                on_error=shared.on_error,
            )
        )

    def start(self) -> None:
        """Begin."""
        self._fetcher.start()
        self.coordination.start()

    def await_start(self, check: Callable[[], None]) -> TallymarkError | None:
        """Until the partitions are divided and every own one knows where it begins: what is
        published after that is not missed, also with ``largest``. ``check`` raises what it meets
        meanwhile. Returns what has kept it from the group for all of ``start_timeout_ms``."""
        deadline = time.monotonic() + self._start_seconds
        settled = self.coordination.settled
        while time.monotonic() < deadline:
            check()
            if settled.is_set() and all(item.fetch for item in self._positions.items()):
                return None
            time.sleep(0.005)
        if self.coordination.problem is not None and not settled.is_set():
            return self.coordination.problem
        LOG.warning(
            "consumer %s starts without its partitions after %g s: %s",
            self._member,
            self._start_seconds,
            "no broker answers" if settled.is_set() else "the group is not settled yet",
        )
        return None

    def fail(self, error: Exception) -> None:
        """Hand out nothing more; streams raise ``error``. From any thread."""
        self.end_streams(error)
        self._fetcher.stop()
        self.coordination.stop()

    def stop(self, timeout: float) -> None:
        """Leave the group in order, for ``timeout`` seconds at most."""
        self.coordination.stop()
        self._fetcher.stop()
        if not self.coordination.join(timeout):
            LOG.warning("consumer %s leaves without having stored all", self._member)

    def join(self) -> None:
        """Wait for the threads' end, a moment: their connections are closed."""
        self.coordination.join(_LAST_SECONDS)
        self._fetcher.join(_FETCHER_SECONDS)

    def end_streams(self, error: Exception | None = None) -> None:
        """Their later calls raise ``error``, or end."""
        for stream in self.streams:
            stream.end(error)
