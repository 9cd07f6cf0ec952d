"""What handlers see of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tallymark.broker.authorizer import AllowAll, Authorizer
from tallymark.broker.cluster import Cluster
from tallymark.broker.image import MetadataImage
from tallymark.broker.offsets_store import OffsetsStore
from tallymark.broker.partitions import Partitions
from tallymark.broker.settings import BrokerSettings


@dataclass(slots=True)
class BrokerState:
    """The broker's one state, owned by its event loop. ``now_ms`` is the wall clock, ms UTC."""

    settings: BrokerSettings
    partitions: Partitions
    cluster: Cluster
    offsets: OffsetsStore
    now_ms: Callable[[], int]
    authorizer: Authorizer = field(default_factory=AllowAll)
    """Who may do what; handlers ask it with their ``call.connection``."""
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when everything this broker leads is open."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the broker stops: whoever waits for something answers with what there is."""

    @property
    def image(self) -> MetadataImage:
        """The picture of the cluster that is in force."""
        return self.partitions.image
