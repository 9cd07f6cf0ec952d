"""Whose password is hashed next. Pure.

A hash takes milliseconds on purpose, so a flood of wrong passwords is a queue. Its order makes
only the senders of the flood wait: addresses take turns, users of one address take turns, and
one user's log-ins at one address keep their order. What one address may have waiting is hashed
before the refusals of that address are due (:mod:`tallymark.net.limits.failed_login_delay`), so
that a refusal of a name that is there comes no later than one of a name that is not.

A wrong password costs its price from a purse that fills up at a fixed rate, a right one nothing: so
wrong ones take a bounded share of the processor, and a thousand clients that come back at the same
time are not held up.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

from tallymark.net.addresses import sender
from tallymark.net.limits.failed_login_delay import LONGEST_SECONDS, PER_SECOND

T = TypeVar("T")

MAX_WAITING: Final = 10_000
_MAX_OF_ONE: Final = int(LONGEST_SECONDS * PER_SECOND)


class LoginQueue(Generic[T]):
    """``T`` is one log-in that waits."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, host: str, user: str, item: T) -> T | None:
        """Let ``item`` wait. What is returned has to go: the oldest of the user with the most that
        waits at this address, or ``item`` itself where no other can wait."""
        if self._size >= MAX_WAITING:
            return item
        users = self._hosts.setdefault(sender(host), OrderedDict())
        users.setdefault(user, deque()).append(item)
        self._size += 1
        if sum(map(len, users.values())) <= _MAX_OF_ONE:
            return None
        return self._first_of(users, max(users, key=lambda name: len(users[name])))

    def take(self) -> T:
        """The next; IndexError where none waits."""
        if not self._hosts:
            raise IndexError("nobody waits")
        host, users = self._hosts.popitem(last=False)
        user = next(iter(users))
        item = self._first_of(users, user)
        if user in users:
            users.move_to_end(user)
        if users:
            self._hosts[host] = users
        return item

    def _first_of(self, users: OrderedDict[str, deque[T]], user: str) -> T:
        item = users[user].popleft()
        if not users[user]:
            del users[user]
        self._size -= 1
        return item


class Purse:
    """``rate`` a second, up to ``most``; ``now`` is monotonic, in seconds."""

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most = rate, most
        self._held, self._at = most, now

    def wait(self, now: float) -> float:
        """How long until something may be bought again, seconds."""
        self._fill(now)
        return max(0.0, -self._held / self._rate)

    def pay(self, price: float, now: float) -> None:
        """May go below zero: then :meth:`wait` says for how long."""
        self._fill(now)
        self._held -= price

    def _fill(self, now: float) -> None:
        self._held = min(self._most, self._held + (now - self._at) * self._rate)
        self._at = now
