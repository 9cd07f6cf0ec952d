"""Quotas: how many bytes a second a user or a client may produce and consume here. Pure.

A bucket contains the bytes that may pass now, at most those of one second, and fills at the quota's
rate. Each request is charged in full, so a bucket may become negative; its client is then throttled
until it is not (KIP-13, KIP-219). Of the quotas that match a request the first of these is used, as
in Kafka (KIP-55)::

    user with client id | user with all clients | user
    all users with client id | all users with all clients | all users
    client id | all client ids

Every user, client id, or user with a client id, has its own bucket, even if one quota applies to
all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tallymark.broker.settings.dynamic import DEFAULT_NAME

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
"""The names of quotas."""

LONGEST_SECONDS: Final = 30.0
"""No client is throttled for longer at once, and no bucket is further below zero: clients time out
on late responses."""
_MOST_BUCKETS: Final = 10_000


class TokenBucket:
    """``rate`` bytes a second. ``now`` is any monotonic clock, in seconds."""

    __slots__ = ("_level", "_then", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._level = rate
        self._then = now

    def take(self, amount: int, now: float) -> float:
        """Charge ``amount``; returns for how many seconds the client is throttled, 0 for none."""
        filled = min(self.rate, self._level + max(0.0, now - self._then) * self.rate)
        self._level = max(filled - amount, -self.rate * LONGEST_SECONDS)
        self._then = now
        return max(0.0, -self._level / self.rate)


Place: TypeAlias = tuple[str | None, str | None]
"""The entity of a quota: a user, a client id, or (neither is None) a user with a client id."""


class Quotas:
    """An immutable set of quotas: name -> key -> rate, as text; of users, of clients, and of users
    with clients by (user, client)."""

    def __init__(
        self,
        users: Mapping[str, Mapping[str, str]] | None = None,
        clients: Mapping[str, Mapping[str, str]] | None = None,
        user_clients: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
    ) -> None:
        held: list[tuple[Place, Mapping[str, str]]] = [
            *(((user, None), values) for user, values in (users or {}).items()),
            *(((None, client), values) for client, values in (clients or {}).items()),
            *(user_clients or {}).items(),
        ]
        self.rates: Mapping[Place, dict[str, float]] = {
            place: rates for place, values in held if (rates := rates_of(values))
        }
        """Every quota, :data:`DEFAULT_NAME` standing for all of a kind."""
        self.active = bool(self.rates)
        """Whether there are any quotas."""
        self._buckets: dict[tuple[Place, str], TokenBucket] = {}

    def taking_over(self, before: Quotas) -> Quotas:
        """Return itself, with the buckets of ``before`` whose rates are unchanged: a change of one
        quota does not reset the others."""
        for (place, key), bucket in before._buckets.items():
            if self._rate(place, key) == bucket.rate:
                self._buckets[place, key] = bucket
        return self

    def take(self, user: str, client_id: str, key: str, amount: int, now: float) -> float:
        """Charge ``amount`` bytes; returns for how many seconds that client is throttled."""
        for place, wanted in _fitting(user, client_id):
            rate = self.rates.get(wanted, {}).get(key)
            if rate is not None:
                return self._bucket(place, key, rate, now).take(amount, now)
        return 0.0

    def _rate(self, place: Place, key: str) -> float | None:
        """The rate of that bucket."""
        for bucket, wanted in _fitting(place[0] or "", place[1] or ""):
            rate = self.rates.get(wanted, {}).get(key)
            if bucket == place and rate is not None:
                return rate
        return None

    def _bucket(self, place: Place, key: str, rate: float, now: float) -> TokenBucket:
        bucket = self._buckets.get((place, key))
        if bucket is None:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._buckets.clear()  # invented client ids must not fill the memory
            bucket = self._buckets[place, key] = TokenBucket(rate, now)
        return bucket


def _fitting(user: str, client: str) -> tuple[tuple[Place, Place], ...]:
    """(entity of the bucket, entity of the quota) for a request, in order of precedence."""
    both, every = (user, client), DEFAULT_NAME
    return (
        (both, both),
        (both, (user, every)),
        ((user, None), (user, None)),
        (both, (every, client)),
        (both, (every, every)),
        ((user, None), (every, None)),
        ((None, client), (None, client)),
        ((None, client), (None, every)),
    )


def rates_of(values: Mapping[str, str]) -> dict[str, float]:
    """The quotas among the configs of a user or client; invalid rates are left out."""
    found: dict[str, float] = {}
    for key in KEYS:
        try:
            rate = float(values.get(key, ""))
        except ValueError:
            continue
        if is_rate(rate):
            found[key] = rate
    return found


def is_rate(value: float) -> bool:
    """Whether the value can be a quota: a number of at least one byte a second."""
    return 1.0 <= value <= 2.0**63
