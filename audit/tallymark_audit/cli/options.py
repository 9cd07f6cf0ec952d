"""Options that the commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypedDict, TypeVar

import click

from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time, utc

F = TypeVar("F", bound=Callable[..., Any])
MOST_ROWS: Final = 1_000_000

settings = click.option(
    "--settings", type=click.Path(), help="The settings file of the deployment."
)
edge = click.option("--edge", help="Only this edge, as in producer-to-dc1 or dc1-to-aggregate.")
topic = click.option("-t", "--topic", help="Only this topic.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


bootstrap = click.option(
    "-b",
    "--bootstrap-server",
    "bootstraps",
    multiple=True,
    metavar="HOST:PORT,...",
    help="In place of its name: the cluster of the settings that is there.",
)


class Time(click.ParamType[int]):
    """A moment, in ms UTC."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """``2026-01-31T12:40``, a date, ms, or ``10m``: ten minutes ago."""
        if isinstance(value, int):
            return value
        try:
            return parse_time(str(value))
        except UserError as error:
            self.fail(str(error), param, ctx)


class Listed(TypedDict):
    """What :func:`listed` gives a command. Times are ms; None: without a bound."""

    settings: str | None
    edge: str | None
    topic: str | None
    start: int | None
    end: int | None
    states: tuple[str, ...]
    limit: int
    as_json: bool


def listed(states: Iterable[str], rows: str = "The newest so many.") -> Callable[[F], F]:
    """The options of a list by edge, topic, time and state."""

    def decorate(command: F) -> F:
        named = click.Choice(list(states))
        only = click.option("--state", "states", multiple=True, type=named, help="Only these.")
        asked = only(newest(rows)(as_json(command)))
        return settings(edge(topic(period(asked))))

    return decorate


def newest(meaning: str) -> Callable[[F], F]:
    """``--limit``: how many rows of a list, 100 where none is given."""
    most = click.IntRange(1, MOST_ROWS)
    return click.option("-n", "--limit", default=100, show_default=True, type=most, help=meaning)


def period(command: F) -> F:
    """``--from`` and ``--to``: windows that start within."""
    told = "ISO time, UTC without a zone; ms; or 10m: ten minutes ago."
    moment = partial(click.option, type=Time(), callback=_in_order)
    command = moment("--to", "end", help=f"Windows before this. {told}")(command)
    return moment("--from", "start", help=f"Windows from this on. {told}")(command)


def _in_order(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """The later one of the two, as they are given, finds the other among those that were read. Of a
    range that holds nothing everything is well, which reads like an answer."""
    both = {**ctx.params, str(param.name): value}
    start, end = both.get("start"), both.get("end")
    if start is not None and end is not None and end <= start:
        raise click.BadParameter(
            f"the range from {utc(start)} to {utc(end)} is empty; --to has to be after --from"
        )
    return value
