"""The tables of the measures, and the paper's findings as aims. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from support.measure import table
from support.paper.runs import SIZE, Measured

_MILLION: Final = 1_000_000
_OURS: Final = "Tallymark"
_BATCH: Final = 50
_OVERHEAD: Final = 10.3
"""61 bytes of a batch by 50 messages, and 9 of a message of 200 bytes."""
_TICK: Final = 0.01
"""Seconds: the least processor time that the kernel counts."""


def tables(found: Sequence[Measured]) -> str:
    """A table for producing, one for consuming, and the aims."""
    parts = [
        f"{title}:\n\n{table([_HEADING[job], *(_row(each) for each in found if each.job == job)])}"
        for job, title in (("produce", "Producing"), ("consume", "Consuming"))
    ]
    aims = [
        (
            each.name,
            f"{'≤' if each.at_most else '≥'} {each.aim:g}",
            f"{each.found:.1f}",
            "" if each.by_cpu is None else f"{each.by_cpu:.1f}",
            each.word,
        )
        for each in checked(found)
    ]
    if aims:
        heading = (f"Tallymark in batches of {_BATCH}", "aim", "found", "by broker's CPU", "")
        parts.append(table([heading, *aims]))
    return "\n\n".join(parts)


_COLUMNS: Final = ("broker", "client", "batch", "messages", "msg/s", "MB/s")
_CPU: Final = ("broker's CPU-s per million", "client's CPU-s per million")
_HEADING: Final = {
    "produce": (*_COLUMNS, *_CPU, "bytes on disk a message"),
    "consume": (*_COLUMNS, *_CPU),
}


def _row(each: Measured) -> tuple[str, ...]:
    rate, million = each.messages / each.seconds, each.messages / _MILLION
    row = (
        each.product,
        f"{each.client} ({each.language.capitalize()})",
        str(each.batch or "-"),
        f"{each.messages:,}",
        f"{rate:,.0f}",
        f"{rate * SIZE / 1e6:,.1f}",
        f"{each.broker_cpu / million:,.1f}",
        f"{each.client_cpu / million:,.1f}",
    )
    return row if each.job == "consume" else (*row, f"{each.disk_bytes / each.messages:,.1f}")


@dataclass(frozen=True)
class Aim:
    """A finding of the paper. ``found`` should be at least ``aim``, or with ``at_most`` at most;
    ``by_cpu`` is the same by the brokers' CPU-seconds, which a busy machine hardly changes."""

    name: str
    aim: float
    found: float
    by_cpu: float | None = None
    at_most: bool = False

    @property
    def word(self) -> str:
        """Whether it is met."""
        met = self.found <= self.aim if self.at_most else self.found >= self.aim
        return "met" if met else "missed"


def checked(found: Sequence[Measured]) -> Iterator[Aim]:
    """The aims for whose sides there are measures, with the Java clients."""
    runs = {(e.product, e.job, e.batch): e for e in found if e.language == "java"}
    for job, verb, aims in (
        ("produce", "producing", {"ActiveMQ": 10.0, "RabbitMQ": 2.0}),
        ("consume", "consuming", {"ActiveMQ": 4.0, "RabbitMQ": 4.0}),
    ):
        ours = runs.get((_OURS, job, _BATCH))
        for name, aim in aims.items():
            other = runs.get((name, job, 0))
            if ours and other:
                by_cpu = _cpu_cost(other) / max(_cpu_cost(ours), _TICK / ours.messages)
                ratio = _rate(ours) / _rate(other)
                yield Aim(f"{verb}, times the rate of {name}", aim, ratio, by_cpu)
    ours = runs.get((_OURS, "produce", _BATCH))
    if ours:
        over = ours.disk_bytes / ours.messages - SIZE
        yield Aim("bytes on disk beside the payload", _OVERHEAD, over, at_most=True)


def _rate(each: Measured) -> float:
    return each.messages / each.seconds


def _cpu_cost(each: Measured) -> float:
    return each.broker_cpu / each.messages
