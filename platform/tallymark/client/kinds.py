"""Settings of the wrong kind are refused by name, where they are given."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin, get_type_hints

from tallymark.errors import UserError

_CALLED = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
Kinds = tuple[type, ...]


def check_kinds(owner: str, settings: Any) -> None:
    """Compare the fields of a dataclass that are numbers, texts or flags with their annotations.
    UserError names the first of another kind: a "30" for a number would fail far from here."""
    for name, kinds in _plain_fields(type(settings)).items():
        value = getattr(settings, name)
        if not _fits(name, value, kinds):
            wanted = " or ".join(_CALLED[kind] for kind in kinds if kind in _CALLED)
            or_none = ", or None" if types.NoneType in kinds else ""
            raise UserError(
                f"{owner}: {name}={value!r} is not possible", f"it must be {wanted}{or_none}"
            )


def check_callable(owner: str, **given: Callable[..., Any] | None) -> None:
    """Refuse what is given as a function and cannot be called."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise UserError(
                f"{owner}: {name}={value!r} is not possible", "it must be a function, or left out"
            )


def _fits(name: str, value: object, kinds: Kinds) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return bool in kinds
    either = (float in kinds or int in kinds) and (float in kinds or name.endswith("_ms"))
    return isinstance(value, kinds) or (either and isinstance(value, (int, float)))


def _plain_fields(kind: type[Any]) -> dict[str, Kinds]:
    """The fields that are nothing but numbers, texts, flags and None."""
    fields: dict[str, Kinds] = {}
    for name, hint in get_type_hints(kind).items():
        union = get_origin(hint) in (Union, types.UnionType)
        kinds = get_args(hint) if union else (hint,)
        if all(one in _CALLED or one is types.NoneType for one in kinds):
            fields[name] = kinds
    return fields
