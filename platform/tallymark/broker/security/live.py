"""What the broker knows of users and permissions: read from the store at the start, read again
whenever it changes, and in memory in between, so that no request waits for the store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from tallymark.broker.security.acl_authorizer import AclAuthorizer
from tallymark.broker.security.acl_log import DenialLog
from tallymark.broker.security.acl_rules import AclRules
from tallymark.broker.security.authorizer import AllowAll, Authorizer
from tallymark.broker.security.quotas import Quotas
from tallymark.broker.security.store import SecurityRecords, SecurityStore
from tallymark.broker.security.users import Users
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import CODES, ClosedError, KafkaError, TallymarkError

log: Final = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS: Final = 5.0
"""After a reading that failed."""


class Security:
    """Users, entries, quotas and the authorizer, followed from ``store``; for one event loop."""

    def __init__(self, settings: BrokerSettings, store: SecurityStore) -> None:
        self.store = store
        self.users = Users({}, b"")
        self.records = SecurityRecords(b"")
        self.denials = DenialLog()
        self.quotas = Quotas()
        self.throttled: Counter[int] = Counter()
        """How many requests of an API key were answered with a wait, since the start."""
        self.on_brokers: Callable[[Mapping[str, Mapping[str, str]]], None] = lambda _: None
        """Called on the loop with what is kept of brokers, after each reading."""
        self._super_users = super_users(settings.super_users)
        self._open = settings.allow_everyone_if_no_acl_found
        self._acls = AclAuthorizer(self._rules(), self.denials)
        self.enabled = settings.authorizer_enable
        """Whether access-control lists are in force."""
        self._loop = asyncio.get_running_loop()
        self._dirty = asyncio.Event()
        self._reading = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None

    @property
    def authorizer(self) -> Authorizer:
        """The authorizer in force."""
        return self._acls if self.enabled else AllowAll()

    @property
    def rules(self) -> AclRules:
        """The entries in force."""
        return self._acls.rules

    async def start(self) -> None:
        """Read, and follow from here on. Raises what the store raises."""
        self._unwatch = await asyncio.to_thread(self.store.watch, self._changed)
        await self.refresh()
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Follow no more. Idempotent."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
            self._follower = None
        if self._unwatch is not None:
            await asyncio.to_thread(self._unwatch)
            self._unwatch = None

    async def refresh(self) -> None:
        """Take over what the store has now."""
        async with self._reading:
            records = await asyncio.to_thread(self.store.read)
            self.users = Users(records.users, records.salt_key)
            quotas = Quotas(records.users, records.clients, records.user_clients)
            self.quotas = quotas.taking_over(self.quotas)
            self.records = records
            self._acls.rules = self._rules()
            self.on_brokers(records.brokers)

    async def change(self, command: Callable[[], T]) -> T:
        """A change of the store for a client; has taken effect on this broker on return. KafkaError
        for what the store raises: the client may try again."""
        try:
            result = await asyncio.to_thread(command)
            await self.refresh()
        except KafkaError:
            raise
        except TallymarkError as error:
            raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(error)) from error
        return result

    def _rules(self) -> AclRules:
        return AclRules(self.records.acls, self._super_users, self._open)

    def _changed(self) -> None:
        """On the store's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._dirty.set)

    async def _follow(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self.refresh()
            except ClosedError:
                return
            except TallymarkError as error:
                log.error("users and access-control lists stay as they were: %s", error)
                self._loop.call_later(RETRY_SECONDS, self._dirty.set)
            else:
                log.info(
                    "security read users=%d acls=%d",
                    len(self.users.credentials),
                    len(self.records.acls),
                )


def super_users(text: str) -> frozenset[str]:
    """``User:alice;User:CN=admin,O=Example``: principals hold commas, so semicolons part them."""
    return frozenset(part.strip() for part in text.split(";") if part.strip())
