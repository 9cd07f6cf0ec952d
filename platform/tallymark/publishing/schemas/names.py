"""Names that Avro allows, made from names that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

SOURCE: Final = "source"
"""Attribute of an inferred field that holds its name in the input, where Avro cannot have it. A
schema that is given may have it, too."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]+")
_MAX: Final = 120


def safe_name(name: str) -> str:
    """Letters, digits and ``_``, no digit first: ``user-agent`` becomes ``user_agent``."""
    safe = _UNSAFE.sub("_", name)[:_MAX]
    return safe if safe and not safe[0].isdigit() else f"_{safe}"


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """A safe name for each, no two the same. Names that are safe already keep theirs."""
    names = list(names)
    chosen = {name: name for name in names if safe_name(name) == name}
    taken = set(chosen)
    for name in names:
        if name not in chosen:
            chosen[name] = unique_name(safe_name(name), taken)
    return {name: chosen[name] for name in names}


def unique_name(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2``, ``name_3`` ... where it is taken; adds it to ``taken``."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate
