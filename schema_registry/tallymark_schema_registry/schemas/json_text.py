"""JSON as Java's Jackson writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any, Final

_UNSAFE: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def json_text(value: Any) -> str:
    """No spaces, non-ASCII as it is, doubles by Java's rules."""
    if isinstance(value, str):
        return string_text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return object_text((key, json_text(item)) for key, item in value.items())


def object_text(parts: Iterable[tuple[str, str]]) -> str:
    """``parts`` are keys, and texts of values."""
    return "{" + ",".join(f"{string_text(key)}:{text}" for key, text in parts) + "}"


def string_text(value: str) -> str:
    """Python's own function is in C, and writes control characters in lower case."""
    if value.isprintable():
        return encode_basestring(value)
    return '"' + _UNSAFE.sub(_escape, value) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT.get(char) or f"\\u{ord(char):04X}"


def java_double(value: float) -> str:
    """``Double.toString`` from Java 19 on (older ones write a few with a digit too many): 1.0,
    0.001, then 1.0E7 and 1.0E-4 from where Java goes scientific, always with two digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return _plain(repr(value))
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    sign, digits, exponent = _decompose(repr(value))
    if len(digits) == 1:  # the two digits that are nearest: the smallest double is 4.9E-324
        sign, digits, exponent = _decompose(f"{value:.1e}")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _plain(text: str) -> str:
    # Python writes 0.001 to 9999999.9 plainly, too: the ranges of the two overlap there.
    return text if "." in text else f"{text}.0"


def _decompose(text: str) -> tuple[str, str, int]:
    """Sign, significant digits, and the exponent of the first one."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(power or 0) + len(whole) - 1
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits.strip("0") or "0", exponent - leading
