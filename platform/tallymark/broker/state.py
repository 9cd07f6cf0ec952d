"""What handlers see of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tallymark.broker.fetch_sessions import FetchSessionCache
from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.metrics.counters import BrokerMetrics
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.security.authorizer import AllowAll, Authorizer
from tallymark.broker.security.live import Security
from tallymark.broker.security.sasl_logins import Logins
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.dynamic import Dynamic
from tallymark.broker.timed_changes import TimedChanges
from tallymark.log import LogManager
from tallymark.net.limits.log_rate import LogRate


@dataclass(slots=True)
class BrokerState:
    """The broker's one state, owned by its event loop. ``now_ms`` is the wall clock, ms UTC."""

    settings: BrokerSettings
    """Those in force, what was set at run time included."""
    partitions: Partitions
    cluster: Cluster
    group_shards: GroupShards
    now_ms: Callable[[], int]
    security: Security
    """Users and access-control lists."""
    logins: Logins
    static_settings: BrokerSettings = field(default_factory=BrokerSettings)
    """What the broker was started with."""
    dynamic: Dynamic = field(default_factory=Dynamic)
    """What was set at run time since."""
    authorizer: Authorizer = field(default_factory=AllowAll)
    """The authorizer; handlers ask it with their ``call.connection``."""
    altering: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a topic's configs are read, changed and stored."""
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    """What is counted; see :mod:`tallymark.broker.metrics.counters`."""
    logs: LogManager | None = None
    """Every log of this broker, led or not; None in tests without a disk."""
    timed_changes: TimedChanges = field(default_factory=TimedChanges)
    """Runs changes that their client may stop waiting for."""
    fetch_sessions: FetchSessionCache = field(default_factory=FetchSessionCache)
    """What readers with a session read."""
    refusals: LogRate = field(default_factory=LogRate)
    """Which refusals of Produce that are our fault were logged of late."""
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when everything this broker leads is open."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the broker stops: parked requests are answered with what there is."""

    @property
    def image(self) -> MetadataImage:
        """The image of the cluster that is in force."""
        return self.partitions.image
