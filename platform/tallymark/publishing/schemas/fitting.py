"""Rows against a schema: the value that can be encoded, or the reason why it does not fit.

Nothing is lost on the way: a number that a type cannot hold exactly, a field that the schema does
not have, are reasons and not roundings. Texts become what the schema says where JSON has no such
type: bytes and fixed (one byte a character, as Avro's own JSON does), enums, timestamps as ISO
8601; cells of CSV files become everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tallymark.errors import TallymarkError, UserError
from tallymark.publishing.schemas.inference import guess
from tallymark.publishing.schemas.names import SOURCE
from tallymark.shell.times import event_time_ms

Fit: TypeAlias = Callable[[Any], Any]

_FLOAT_MAX: Final = 3.4028234663852886e38
_MISSING: Final = object()
_PER_MS: Final = {"timestamp-millis": 1, "timestamp-micros": 1000}


class Misfit(TallymarkError):
    """A value that does not fit. ``path`` is built from the inside out."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> Misfit:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return Misfit(self.reason, f"{name}{separator}{self.path}")


def fitter(schema: Any, cells: bool) -> Fit:
    """A function from a row to the value to encode; it raises :class:`Misfit`.

    ``schema`` is a record's, with all names full, as fastavro parses it. ``cells``: values are
    texts of CSV cells. Raises UserError if the schema is not a record.
    """
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        raise UserError("the schema is not a record, and every row is one", "give another --schema")
    return _Compiler(cells).compile(schema)


class _Compiler:
    def __init__(self, cells: bool) -> None:
        self._cells = cells
        self._named: dict[str, Fit] = {}

    def compile(self, schema: Any) -> Fit:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self._primitive(schema)
            # Looked up when it is used: a recursive type is not there yet.
            return lambda value: self._named[schema](value)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.compile(kind)
        if schema.get("logicalType") in _PER_MS:
            return self._timestamp(_PER_MS[schema["logicalType"]])
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            fit = _enum(frozenset(schema["symbols"]))
        elif kind == "fixed":
            fit = _fixed(schema["size"])
        elif kind in ("array", "map"):
            return self._nested(schema)
        else:
            return self._primitive(kind)
        self._named[schema["name"]] = fit
        return fit

    def _primitive(self, kind: str) -> Fit:
        fit = _PRIMITIVES[kind]
        if not self._cells or kind in ("string", "bytes"):
            return fit
        return lambda cell: fit(guess(cell))

    def _timestamp(self, per_ms: int) -> Fit:
        number = self._primitive("long")

        def fit(value: Any) -> int:
            if isinstance(value, str) and not (self._cells and isinstance(guess(value), int)):
                try:
                    return event_time_ms(value) * per_ms
                except ValueError as error:
                    raise Misfit(str(error)) from None
            return int(number(value))

        return fit

    def _union(self, branches: list[Any]) -> Fit:
        # The encoder takes the first branch that can hold a number; a long behind a double would
        # silently be written as a double.
        kinds = [branch if isinstance(branch, str) else "" for branch in branches]
        inexact = min(
            (kinds.index(kind) for kind in ("float", "double") if kind in kinds), default=99
        )
        fits = [
            self.compile(branch)
            for index, branch in enumerate(branches)
            if not (index > inexact and kinds[index] in ("int", "long"))
        ]
        others = [branch for branch in branches if branch != "null"]

        def fit(value: Any) -> Any:
            reasons: list[Misfit] = []
            for one in fits:
                try:
                    return one(value)
                except Misfit as misfit:
                    reasons.append(misfit)
            # With one branch beside null, its reason is the one to report.
            if len(others) == 1:
                raise reasons[-1 if branches[-1] != "null" else 0]
            raise Misfit(f"{_show(value)} fits no branch of {json.dumps(kinds)}")

        return fit

    def _nested(self, schema: dict[str, Any]) -> Fit:
        if self._cells:
            return _refuse(f"a CSV cell cannot be of type {schema['type']}")
        if schema["type"] == "array":
            return _array(self.compile(schema["items"]))
        return _map(self.compile(schema["values"]))

    def _record(self, schema: dict[str, Any]) -> Fit:
        plan: list[tuple[str, str, Fit, bool]] = []
        fit = _record(plan)
        self._named[schema["name"]] = fit
        for field in schema["fields"]:
            kind = self.compile(field["type"])
            plan.append((field["name"], field.get(SOURCE, field["name"]), kind, "default" in field))
        return fit


def _record(plan: list[tuple[str, str, Fit, bool]]) -> Fit:
    """``plan``: name, name in the input, fit, whether there is a default."""

    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit(f"an object is expected, not {_show(value)}")
        result: dict[str, Any] = {}
        found = 0
        for name, source, one, has_default in plan:
            item = value.get(source, _MISSING)
            if item is _MISSING:
                if not has_default:
                    raise Misfit("it is missing", source)
                continue
            found += 1
            try:
                result[name] = one(item)
            except Misfit as misfit:
                raise misfit.within(source) from None
        if found < len(value):
            known = {source for _, source, _, _ in plan}
            surplus = next(name for name in value if name not in known)
            raise Misfit("the schema has no such field", surplus[:200])
        return result

    return fit


def _array(one: Fit) -> Fit:
    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit(f"a list is expected, not {_show(value)}")
        result = []
        for index, item in enumerate(value):
            try:
                result.append(one(item))
            except Misfit as misfit:
                raise misfit.within(f"[{index}]") from None
        return result

    return fit


def _map(one: Fit) -> Fit:
    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit(f"an object is expected, not {_show(value)}")
        result = {}
        for key, item in value.items():
            try:
                result[_string(key)] = one(item)
            except Misfit as misfit:
                raise misfit.within(key[:200]) from None
        return result

    return fit


def _enum(symbols: frozenset[str]) -> Fit:
    def fit(value: Any) -> str:
        if isinstance(value, str) and value in symbols:
            return value
        raise Misfit(f"{_show(value)} is not one of the symbols")

    return fit


def _fixed(size: int) -> Fit:
    def fit(value: Any) -> bytes:
        data = _bytes(value)
        if len(data) != size:
            raise Misfit(f"{len(data)} bytes, where {size} are expected")
        return data

    return fit


def _refuse(reason: str) -> Fit:
    def fit(value: Any) -> Any:
        raise Misfit(reason)

    return fit


def _null(value: Any) -> None:
    if value is not None:
        raise Misfit(f"null is expected, not {_show(value)}")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit(f"true or false is expected, not {_show(value)}")
    return value


def _integer(bits: int) -> Fit:
    limit = 1 << (bits - 1)

    def fit(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Misfit(f"an integer is expected, not {_show(value)}")
        if not -limit <= value < limit:
            raise Misfit(f"{_show(value)} is beyond {bits} bits")
        return value

    return fit


def _double(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Misfit(f"a number is expected, not {_show(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number != value:
        raise Misfit(f"a double cannot hold {_show(value)} exactly")
    return number


def _float(value: Any) -> float:
    number = _double(value)
    if abs(number) > _FLOAT_MAX:
        raise Misfit(f"a float cannot hold {_show(value)}")
    return number


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit(f"a text is expected, not {_show(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit("the text holds half of a surrogate pair") from None
    return value


def _bytes(value: Any) -> bytes:
    try:
        return _string(value).encode("latin-1")
    except UnicodeEncodeError:
        raise Misfit("a text that stands for bytes has a character beyond U+00FF") from None


_PRIMITIVES: Final[dict[str, Fit]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
}


def _show(value: Any) -> str:
    """The value, short enough for one line."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "an integer of more than 30 digits"
    text = "null" if value is None else ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
