"""What the coordination of a group works with, and what a connector asks of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallymark.client.consuming.brokers import BrokerLink
from tallymark.client.consuming.commit import OffsetCommitter
from tallymark.client.consuming.fetcher import FetcherThread
from tallymark.client.consuming.stream import Gate, Stream
from tallymark.client.consuming.subscription_state import SubscriptionState
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a connector its coordination works with."""

    subscription: Subscription
    streams: Sequence[Stream]
    first_stream: Mapping[str, int]
    """Topic to the number of its first stream, where topics have streams of their own."""
    gate: Gate
    link: BrokerLink
    fetcher: FetcherThread
    positions: SubscriptionState
    committer: OffsetCommitter
    before_release: Callable[[], Mapping[TopicPartition, int]] | None
    on_error: Callable[[Exception], None]


class Coordination(Protocol):
    """The thread or threads that own and give up partitions."""

    settled: threading.Event
    """Set once the first division of the partitions is in force."""

    problem: TallymarkError | None
    """What keeps it from getting there, if it knows."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def join(self, timeout: float) -> bool: ...
