"""Quotas: how many bytes a second a user or a client may produce and consume here. Pure.

A bucket holds the bytes that may pass now, one second's worth at most, and fills at the quota's
rate. What is done is charged in full, so a bucket may be in debt; whoever put it there waits until
it is not (KIP-13, KIP-219). Of the quotas that fit a request the first of these counts, as in
Kafka: the user's own, the one of all users, the client id's own, the one of all client ids. Every
user (or client id) has a bucket of its own, also where one quota is for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.broker.security_store import DEFAULT_NAME

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
"""The quotas there are."""

LONGEST_SECONDS: Final = 30.0
"""Nobody waits longer at once, and no debt is larger: clients give up on answers they wait for."""
_MOST_BUCKETS: Final = 10_000


class TokenBucket:
    """``rate`` bytes a second. ``now`` is any monotonic clock, in seconds."""

    __slots__ = ("_level", "_then", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._level = rate
        self._then = now

    def take(self, amount: int, now: float) -> float:
        """Charge ``amount``; for how many seconds nothing more may be done, 0 for none."""
        filled = min(self.rate, self._level + max(0.0, now - self._then) * self.rate)
        self._level = max(filled - amount, -self.rate * LONGEST_SECONDS)
        self._then = now
        return max(0.0, -self._level / self.rate)


class Quotas:
    """The quotas of one moment: name -> key -> rate, as text."""

    def __init__(
        self,
        users: Mapping[str, Mapping[str, str]] | None = None,
        clients: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._rates = {
            kind: {name: rates for name, values in held.items() if (rates := rates_of(values))}
            for kind, held in (("user", users or {}), ("client-id", clients or {}))
        }
        self.active = any(self._rates.values())
        """Whether there are any."""
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}

    def taking_over(self, before: Quotas) -> Quotas:
        """Itself, with the buckets of ``before`` whose rates still hold: a change of one quota is
        no gift to everybody else."""
        for place, bucket in before._buckets.items():
            kind, name, key = place
            if self._rate(kind, name, key) == bucket.rate:
                self._buckets[place] = bucket
        return self

    def take(self, user: str, client_id: str, key: str, amount: int, now: float) -> float:
        """Charge ``amount`` bytes; for how many seconds that client is to be held back."""
        for kind, name in (("user", user), ("client-id", client_id)):
            rate = self._rate(kind, name, key)
            if rate is not None:
                return self._bucket((kind, name, key), rate, now).take(amount, now)
        return 0.0

    def _rate(self, kind: str, name: str, key: str) -> float | None:
        rates = self._rates[kind]
        own = rates.get(name, {}).get(key)
        return own if own is not None else rates.get(DEFAULT_NAME, {}).get(key)

    def _bucket(self, place: tuple[str, str, str], rate: float, now: float) -> TokenBucket:
        bucket = self._buckets.get(place)
        if bucket is None:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._buckets.clear()  # client ids that somebody makes up must not fill the memory
            bucket = self._buckets[place] = TokenBucket(rate, now)
        return bucket


def rates_of(values: Mapping[str, str]) -> dict[str, float]:
    """The quotas among the configs of a user or client; what is no rate is left out."""
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
    """Whether it can be a quota: at least one byte a second, and a number."""
    return 1.0 <= value <= 2.0**63
