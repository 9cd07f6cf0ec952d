"""A member of a group that only needs to know its partitions: it fetches and stores nothing.

For readers that keep their positions themselves, and whose store refuses a writer that has lost a
partition: then nothing has to wait when partitions move, and a late notice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Unpack

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.security.security import SecuritySettings, client_security
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.driver import GroupDriver
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import COOPERATIVE
from tallymark.client.group.state_machine.state import NOBODY, Phase, Setup, State
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import (
    KafkaError,
    LocalProtocolError,
    TallymarkError,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger(__name__)
_LEAVE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 10.0
"""Seconds until it tries again after an error that does not pass: an operator may have corrected
it."""


@dataclass(frozen=True)
class _Matching(Subscription):
    """The topics, internal ones too, that a function picks."""

    picks: Callable[[str], bool] = field(default=lambda name: True)

    def streams_of(self, topic: str) -> int:
        """One stream of each."""
        return 1 if self.picks(topic) else 0


class GroupMembership:
    """In the group ``group``, from the constructor to :meth:`close`, for all topics that ``picks``
    picks. Never raises because of the brokers: :attr:`problem` says what is wrong with them.

    ``session_timeout_ms``: a member that is silent for so long has lost its partitions.
    """

    def __init__(
        self,
        group: str,
        picks: Callable[[str], bool],
        *,
        bootstrap_servers: str,
        client_id: str = "tallymark",
        session_timeout_ms: int = 10_000,
        request_timeout_ms: int = 3_000,
        metadata_max_age_ms: int = 2_000,
        **security: Unpack[SecuritySettings],
    ) -> None:
        self._settings = settings = ConsumerSettings(
            group=group,
            coordinator="brokers",
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            enable_auto_commit=False,
            partition_assignment_strategy=COOPERATIVE,
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max(session_timeout_ms, 30_000),
            metadata_max_age_ms=metadata_max_age_ms,
            connect_timeout_ms=request_timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        secured = client_security(security, GroupMembership)
        setup = Setup(
            _Matching({".*": 1}, is_filter=True, picks=picks),
            settings.strategies,
            settings.session_ms,
            settings.poll_interval_ms,
            settings.heartbeat_ms,
            settings.retry_backoff_ms,
            settings.metadata_max_age_ms,
        )
        self.part: frozenset[TopicPartition] | None = None
        """What it has now; None until the group has answered for the first time."""
        self.sole = False
        """Whether there was no other member at the last rebalance."""
        self.problem: TallymarkError | None = None
        self.look_at_ms: int | None = None
        self._ended = threading.Event()
        bootstrap = Bootstrap.of(bootstrap_servers, None, secured)
        self._connection = CoordinatorConnection(bootstrap, settings)
        self._driver = GroupDriver(self, self._connection, settings, State(setup), client_id)
        self._driver.submit(ev.Tick())

    def close(self) -> None:
        """Leave the group, so that others need not wait for the session to end. Idempotent."""
        if not self._connection.io.stopped:
            self._driver.submit(ev.Stop())
            self._ended.wait(_LEAVE_SECONDS)
            self._connection.close()

    # -- of the driver ------------------------------------------------------------------------

    def entered(self, before: State) -> None:
        """See :class:`~tallymark.client.group.driver.DriverOwner`; so with the others."""

    def perform(self, action: act.Action) -> bool:
        soon = asyncio.get_running_loop().call_soon
        match action:
            case act.StartFetchers(places):
                self.part = (self.part or NOBODY) | frozenset(places)
                LOG.info("%s: has %d partitions", self._settings.client_id, len(self.part))
            case act.StopFetchers(places):
                self.part = (self.part or NOBODY) - frozenset(places)
            case act.Release(ticket, _) | act.Load(ticket, _):
                soon(self._driver.feed, ev.Done(ticket))
            case act.Forget() | act.Pause() | act.Resume():
                pass
            case act.Fail(code):
                self.failed(KafkaError(code, f"group {self._settings.group}"))
            case act.Close():
                self._ended.set()
            case _:
                return False
        return True

    def handled(self, before: State, event: ev.Event) -> None:
        state = self._driver.state
        if state.phase is Phase.STABLE:
            self.problem = None
            self.sole = state.leads and len(state.members) == 1
            if self.part is None:
                self.part = frozenset()

    def on_time(self, now_ms: int) -> None:
        """Nothing but the machine waits for a time."""

    def may_pass(self, error: TallymarkError) -> bool:
        self.problem = error
        return True

    def failed(self, error: TallymarkError) -> None:
        """It has no part for now, and tries again a while later."""
        if isinstance(error, LocalProtocolError):
            return  # the connection was closed meanwhile, by close()
        LOG.warning("%s: not in the group: %s", self._settings.client_id, error)
        leaving = self._driver.state.phase in (Phase.LEAVING_RELEASE, Phase.LEAVING_GROUP)
        self.problem, self.part, self.sole = error, None, False
        self._driver.close()
        self._ended.set()
        if not leaving:
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._again)

    def _again(self) -> None:
        if self._driver.state.phase is Phase.CLOSED:
            self._ended.clear()
            self._driver.begin_again()
