"""A broker that is attacked, and one beside it that is left alone: what a busy machine does to one
it does to both, so the ratio of their times is what the attack does."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import login_flood
from broker_process import BrokerProcess
from security_world import PASSWORD, add_users

from tallymark.client import Admin, Producer
from tallymark.testing.zookeeper import free_port

FIRST_LOG_INS: Final = 300
"""Users who log in once each."""


class Times(NamedTuple):
    """Seconds of one kind of work at the broker that is attacked: the median, and what the fastest
    and the slowest tenth take at most and at least. ``beside`` and ``fast_beside``: at the other
    broker. ``ratio`` is the median of here by there. ``turns`` is the processor time that the event
    loop of the attacked broker has from the beginning of the work to its end, of the fastest tenth:
    its own, and that of whatever it waits for. It does not grow where other processes take the
    processors. (A connection that the kernel asks for again after a second, as a broker without
    a processor has not accepted those before, takes a second of that time.)"""

    median: float
    fast: float
    slow: float
    beside: float
    fast_beside: float
    ratio: float
    turns: float

    def __str__(self) -> str:
        return (
            f"{self.median * 1000:.1f} ms ({self.fast * 1000:.1f} to {self.slow * 1000:.1f}, "
            f"turns {self.turns * 1000:.1f}), beside {self.beside * 1000:.1f} "
            f"({self.fast_beside * 1000:.1f} at least), ratio {self.ratio:.2f}"
        )

    def is_as(self, calm: Times, ratio: float = 1.2) -> bool:
        """Whether the fastest tenth takes what it took when all was calm: within 20 % (``ratio``),
        in its ratio to the broker beside, or 0.2 ms. A busy machine makes some samples longer, here
        or there; a broker that has something else to do takes longer each time. Both are alike:
        where this one was the faster one when all was calm, chance made it so."""
        usual = max(calm.fast / calm.fast_beside, 1)
        return (self.fast / self.fast_beside - ratio * usual) * self.fast_beside < 0.000_2


Work = Callable[[], object]


class TwoBrokers:
    """Both of the same settings and users; a context manager that leaves nothing running. ``{tls}``
    in a setting is one more port, of the broker that is attacked :attr:`tls_port`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        names = [f"user-{number}" for number in range(FIRST_LOG_INS)]
        self._folder = folder
        self._settings = settings
        self._names = (*names, "alice", "bob", "carol")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.attacked, self.beside = (
                stack.enter_context(self._broker(name)) for name in ("attacked", "beside")
            )
            self._works = [self._work(stack, one) for one in (self.attacked, self.beside)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def times(self, samples: int) -> dict[str, Times]:
        """Of each kind of work, done here and there in turn, so many times."""
        return {
            name: _compared(attacked, self._works[1][name], samples, self.attacked.loop_seconds)
            for name, attacked in self._works[0].items()
        }

    def _broker(self, name: str) -> BrokerProcess:
        folder = self._folder / name
        add_users(folder / "data", *self._names)
        tls = free_port()
        if name == "attacked":
            self.tls_port = tls
        given = {
            key: str(value).replace("{tls}", str(tls)) for key, value in self._settings.items()
        }
        return BrokerProcess(folder, **given)

    def _work(self, stack: ExitStack, broker: BrokerProcess) -> dict[str, Work]:
        given: dict[str, Any] = {
            "bootstrap_servers": broker.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "carol",
            "sasl_password": PASSWORD,
        }
        producer = stack.enter_context(Producer(audit=False, linger_ms=0, **given))
        users: Iterator[str] = itertools.chain(self._names[:FIRST_LOG_INS])

        def log_in(user: str) -> None:
            assert login_flood.log_in(broker.address, user, PASSWORD) == 0

        def by_scram() -> None:
            with Admin(**given) as admin:
                admin.brokers()

        log_in("bob")
        producer.send("t", b"x").result(60)
        return {
            "first log-in": lambda: log_in(next(users)),
            "log-in": lambda: log_in("bob"),
            "scram": by_scram,
            "send": lambda: producer.send("t", b"x").result(60),
        }


def _compared(
    attacked: Work, beside: Work, samples: int, loop_seconds: Callable[[], float]
) -> Times:
    taken: tuple[list[float], list[float]] = ([], [])
    turns: list[float] = []
    for _ in range(samples):
        had = loop_seconds()
        for work, found in zip((attacked, beside), taken, strict=True):
            began = time.perf_counter()
            work()
            found.append(time.perf_counter() - began)
            if work is attacked:
                turns.append(loop_seconds() - had)
    here, there = taken
    tenths, tenths_beside = (statistics.quantiles(each, n=10) for each in taken)
    return Times(
        statistics.median(here),
        tenths[0],
        tenths[-1],
        statistics.median(there),
        tenths_beside[0],
        statistics.median(a / b for a, b in zip(here, there, strict=True)),
        statistics.quantiles(turns, n=10)[0],
    )
