"""Finds the error codes in a response, at any depth. Pure.

For each class of response a walker is built once from the declared fields; it skips structs that
cannot contain an error code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallymark.protocol.schema import Array, Message, Struct, wire_fields

_ERROR_CODE: Final = "error_code"

Walk = Callable[[Any, list[int]], None]


def error_codes(response: Message) -> list[int]:
    """Every error code but 0 in a response, as often as it occurs."""
    found: list[int] = []
    walk = _walker(type(response))
    if walk is not None:
        walk(response, found)
    return found


_WALKERS: Final[dict[type[Struct], Walk | None]] = {}


def _walker(cls: type[Struct]) -> Walk | None:
    """A function that collects the codes of a ``cls``; None where it has none."""
    if cls not in _WALKERS:
        _WALKERS[cls] = _made(cls)
    return _WALKERS[cls]


def _made(cls: type[Struct]) -> Walk | None:
    has_code = False
    below: list[tuple[str, bool, Walk]] = []
    for field in wire_fields(cls):
        many = isinstance(field.kind, Array)
        kind = field.kind.element if many else field.kind
        if field.name == _ERROR_CODE:
            has_code = True
        elif isinstance(kind, type) and issubclass(kind, Struct):
            walk = _walker(kind)
            if walk is not None:
                below.append((field.name, many, walk))
    if not has_code and not below:
        return None

    def collect(struct: Any, found: list[int]) -> None:
        if has_code and struct.error_code:
            found.append(struct.error_code)
        for name, many, walk in below:
            value = getattr(struct, name)
            for part in (value or ()) if many else (value,):
                if part is not None:
                    walk(part, found)

    return collect
