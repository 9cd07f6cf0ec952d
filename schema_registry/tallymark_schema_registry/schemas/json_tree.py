"""The JSON of a schema, read as Java reads it, and no deeper than every walk can follow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

from tallymark_schema_registry.schemas.budget import Budget
from tallymark_schema_registry.schemas.names import InvalidSchemaError

MAX_VALUE_DEPTH: Final = 50
"""Lists and objects within one another in defaults and attributes."""

# Strings are matched so that what looks like a comment within one is left alone; what is not closed
# goes to the end of the text, so that no place is looked at twice.
_COMMENT: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|/\*.*?(?:\*/|\Z)|//[^\n\r]*', re.DOTALL)
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?=[fFdD]?$)", re.ASCII)
NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
"""Doubles that JSON has no number for: they are written as text."""


def read_json(text: str, stored: bool = False) -> Any:
    """The tree. ``/* */`` and ``//`` are comments, as in Java's Avro: many files begin with a
    licence.

    Raises InvalidSchemaError where ``text`` is no JSON, or (unless ``stored``) holds a number
    beyond a double."""
    decoder = _STORED if stored else _SENT
    try:
        text.encode()
        try:
            tree = decoder.decode(text)
        except json.JSONDecodeError:
            if "/*" not in text and "//" not in text:
                raise
            tree = decoder.decode(_COMMENT.sub(_blank, text))
        if "\\ud" in text or "\\uD" in text:
            json.dumps(tree, ensure_ascii=False).encode()
        return tree
    except UnicodeEncodeError:
        raise InvalidSchemaError("it holds half of a surrogate pair") from None
    except ValueError as error:  # JSONDecodeError, and an integer of more than 4,300 digits
        raise InvalidSchemaError(f"it is not JSON: {error}") from error


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def check_depth(value: Any, budget: Budget) -> None:
    """Refuse a default or an attribute that is nested more than :data:`MAX_VALUE_DEPTH` deep."""
    if not isinstance(value, list | dict):
        return
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, list | dict) and one]:
        depth += 1
        if depth > MAX_VALUE_DEPTH:
            raise InvalidSchemaError(
                f"a default or an attribute is nested more than {MAX_VALUE_DEPTH} deep"
            )
        level = [item for one in level for item in _items(one)]
        budget.spend(len(level) // 4)


def number_of(text: str) -> float | str | None:
    """What Java's ``Double.parseDouble`` makes of the text, "1.5" or "NaN": None, if it is no
    number to it. "NaN", "Infinity" and "-Infinity" have no other form in JSON. (Hexadecimal numbers
    are not read.)"""
    text = text.strip("".join(map(chr, range(33))))
    if text.removeprefix("+") in NO_NUMBERS:
        return text.removeprefix("+")
    found = _DECIMAL.match(text)
    if not found:
        return None
    value = float(found[0])
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _items(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values()


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is beyond a double")
    return value


_SENT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
_STORED: Final = json.JSONDecoder(parse_constant=_no_constant)
