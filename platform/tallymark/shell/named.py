"""Topics and groups as arguments, or by ``-t``/``--topic`` and ``-g``/``--group`` as the tools of
Kafka and kcat take them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])

_SHORT: Final = {"topic": "-t", "group": "-g"}
_GIVEN: Final = "_by_option"


def one_named(kind: str, argument: str) -> Callable[[F], F]:
    """The parameter ``argument``, one name of that ``kind`` ("topic", "group"): by its place, or by
    the option."""

    def decorate(function: F) -> F:
        @click.argument(argument, required=False)
        @click.option(_SHORT[kind], f"--{kind}", _GIVEN, metavar="NAME", help=f"The {kind}.")
        @wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            names = [options[argument], options.pop(_GIVEN)]
            given = [name for name in names if name is not None]
            if len(given) > 1:
                raise click.UsageError(f"{given[0]!r} and --{kind} {given[1]!r}: give one of them.")
            if not given:
                raise _missing(kind)
            return function(*args, **{**options, argument: given[0]})

        return cast(F, called)

    return decorate


def several_named(kind: str, argument: str, *, required: bool = True) -> Callable[[F], F]:
    """The parameter ``argument``, a tuple of names of that ``kind``: by their places, by the
    option, or both."""
    metavar, told = f"{kind.upper()}...", f"One more {kind}; repeatable."

    def decorate(function: F) -> F:
        @click.argument(argument, nargs=-1, metavar=metavar)
        @click.option(_SHORT[kind], f"--{kind}", _GIVEN, multiple=True, metavar="NAME", help=told)
        @wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            names = (*options[argument], *options.pop(_GIVEN))
            if required and not names:
                raise _missing(kind)
            return function(*args, **{**options, argument: names})

        return cast(F, called)

    return decorate


def _missing(kind: str) -> click.UsageError:
    return click.UsageError(f"Missing argument '{kind.upper()}', or option '{_SHORT[kind]}'.")
