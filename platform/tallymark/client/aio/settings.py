"""How the asyncio classes take the keyword arguments of those they stand on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")


def settings_of(
    source: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Declare a method that hands its arguments on to ``source`` to have its parameters: type
    checkers, help() and editors show one list of settings, which is written once."""

    def declare(method: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        method.__signature__ = inspect.signature(source)  # type: ignore[attr-defined] # any function may have one
        return method

    return declare
