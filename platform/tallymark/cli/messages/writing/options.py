"""The producer's settings as options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

from tallymark.protocol.records.compression import CODECS

F = TypeVar("F", bound=Callable[..., Any])

_RATE = "Messages a second at most [default: as fast as they go]."


def producer_options(function: F) -> F:
    """``--acks``, ``--compression``, ``--linger-ms``, ``--batch-size``."""
    for option in (
        click.option("--batch-size", type=click.IntRange(min=1), help="Bytes a batch."),
        click.option("--linger-ms", type=click.FloatRange(min=0), help="Wait so long for company."),
        click.option(
            "--compression", type=click.Choice(list(CODECS)), default="none", show_default=True
        ),
        click.option(
            "--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True
        ),
    ):
        function = option(function)
    return function


def rate_option(function: F) -> F:
    """``--rate``."""
    return click.option("--rate", type=click.FloatRange(min=0), default=0.0, help=_RATE)(function)


def take_producer(options: dict[str, Any]) -> dict[str, Any]:
    """The producer's arguments, taken out of ``options``."""
    acks: dict[str, Literal["all", 0, 1]] = {"all": "all", "1": 1, "0": 0}
    settings: dict[str, Any] = {
        "acks": acks[options.pop("acks")],
        "compression_type": options.pop("compression"),
    }
    for name in ("linger_ms", "batch_size"):
        given = options.pop(name)
        if given is not None:
            settings[name] = given
    return settings
