"""Decides which password is hashed next. Pure.

A hash takes milliseconds on purpose, so a flood of wrong passwords becomes a queue. Its order makes
only the senders of the flood wait: addresses take turns, users of one address take turns, and one
user's log-ins from one address keep their order. The number of waiting log-ins of one address is
bounded so that they are hashed before its refusals are due
(:mod:`tallymark.net.limits.failed_login_delay`): a refusal for an existing name comes no later than
one for an unknown name.

A wrong password costs its price from a purse that fills at a fixed rate, a right one nothing. So
wrong ones take a bounded share of the processor, and a thousand clients that reconnect at the same
time do not wait.
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
    """The waiting log-ins. ``T`` is one of them."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, host: str, user: str, item: T) -> T | None:
        """Add ``item``. A log-in that is returned must be refused: of the user with the most
        waiting log-ins from this address the oldest one, or ``item`` itself where there is no room
        at all."""
        if self._size >= MAX_WAITING:
            return item
        users = self._hosts.setdefault(sender(host), OrderedDict())
        users.setdefault(user, deque()).append(item)
        self._size += 1
        if sum(map(len, users.values())) <= _MAX_OF_ONE:
            return None
        return self._first_of(users, max(users, key=lambda name: len(users[name])))

    def take(self) -> T:
        """Remove and return the next log-in; IndexError where none waits."""
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
    """A budget that grows by ``rate`` a second, up to ``most``; ``now`` is monotonic, in
    seconds."""

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most = rate, most
        self._held, self._at = most, now

    def wait(self, now: float) -> float:
        """Seconds until the budget is no longer negative; 0 where it is not."""
        self._fill(now)
        return max(0.0, -self._held / self._rate)

    def pay(self, price: float, now: float) -> None:
        """Take ``price`` from the budget, which may become negative; see :meth:`wait`."""
        self._fill(now)
        self._held -= price

    def _fill(self, now: float) -> None:
        self._held = min(self._most, self._held + (now - self._at) * self._rate)
        self._at = now
