"""The broker's copy of users and permissions: read from the store at the start and after every
change, and kept in memory, so that no request waits for the store."""

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
"""The store is read again so long after a failure."""


class Security:
    """Users, access-control lists, quotas and the authorizer, kept equal to ``store``; for one
    event loop."""

    def __init__(self, settings: BrokerSettings, store: SecurityStore) -> None:
        self.store = store
        self.users = Users({}, b"")
        self.records = SecurityRecords(b"")
        self.denials = DenialLog()
        self.quotas = Quotas()
        self.throttled: Counter[int] = Counter()
        """API key -> how many requests were throttled since the start."""
        self.on_brokers: Callable[[Mapping[str, Mapping[str, str]]], None] = lambda _: None
        """Called on the loop after each reading, with the stored settings of brokers."""
        self._super_users = super_users(settings.super_users)
        self._open = settings.allow_everyone_if_no_acl_found
        self._acls = AclAuthorizer(self._rules(), self.denials)
        self.enabled = settings.authorizer_enable
        """Whether access-control lists are used."""
        self._loop = asyncio.get_running_loop()
        self._dirty = asyncio.Event()
        self._reading = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None

    @property
    def authorizer(self) -> Authorizer:
        """The current authorizer."""
        return self._acls if self.enabled else AllowAll()

    @property
    def rules(self) -> AclRules:
        """The current rules."""
        return self._acls.rules

    async def start(self) -> None:
        """Read the store, and from here on read it after every change. Raises the store's
        errors."""
        self._unwatch = await asyncio.to_thread(self.store.watch, self._changed)
        await self.refresh()
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop reading the store. Idempotent."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
            self._follower = None
        if self._unwatch is not None:
            await asyncio.to_thread(self._unwatch)
            self._unwatch = None

    async def refresh(self) -> None:
        """Read the store and apply its content."""
        async with self._reading:
            records = await asyncio.to_thread(self.store.read)
            self.users = Users(records.users, records.salt_key)
            quotas = Quotas(records.users, records.clients, records.user_clients)
            self.quotas = quotas.taking_over(self.quotas)
            self.records = records
            self._acls.rules = self._rules()
            self.on_brokers(records.brokers)

    async def change(self, command: Callable[[], T]) -> T:
        """Change the store for a client; the change has taken effect on this broker on return. An
        error of the store becomes a KafkaError, so that the client may try again."""
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
        """Runs on the store's thread."""
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
    """The principals in ``User:alice;User:CN=admin,O=Example``, separated by semicolons since they
    contain commas."""
    return frozenset(part.strip() for part in text.split(";") if part.strip())
