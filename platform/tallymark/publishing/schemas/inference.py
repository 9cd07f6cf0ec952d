"""A schema from a sample of rows.

* Integers are long, numbers with a fraction anywhere are double, so later rows have room.
* A value that was null or missing somewhere makes ``["null", ...]`` with the default null.
* Values of several kinds make a union of them; a list's items are one type for all lists.
* Names that Avro does not take are changed; the field then says its ``source``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from tallymark.publishing.schemas.names import SOURCE, safe_name, safe_names, unique_name
from tallymark.publishing.schemas.shapes import LONG_MAX, LONG_MIN, Budget, Shape

# Only texts that come back the same as numbers: 007 is a code, not a number.
_INTEGER: Final = re.compile(r"0|-?[1-9]\d{0,18}")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9]\d{0,18})(?:\.\d{1,17})?(?:[eE][+-]?\d{1,3})?")
NOTHING_SEEN: Final = ["null", "string"]
"""The type of what was null in every row."""
EMPTY_OBJECT: Final = {"type": "map", "values": "string"}
"""The type of what was an object without anything in it in every row."""


def infer_schema(topic: str, rows: Iterable[dict[str, Any]], cells: bool) -> str:
    """The schema as JSON text. ``cells``: the values are texts of CSV cells, to be typed.

    Raises UserError if there are too many different fields.
    """
    shape, budget = Shape(), Budget()
    for row in rows:
        if cells:
            row = {name: guess(cell) for name, cell in row.items()}
        shape.add(row, budget)
    return json.dumps(_Writer(cells).record(shape, safe_name(topic)))


def guess(cell: str) -> Any:
    """What a CSV cell looks like; an empty one like null."""
    if cell == "":
        return None
    if _INTEGER.fullmatch(cell):
        number = int(cell)
        return number if LONG_MIN <= number <= LONG_MAX else cell
    if _DECIMAL.fullmatch(cell):
        return float(cell)
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    return cell


class _Writer:
    """Shapes to Avro; every record gets a name of its own."""

    def __init__(self, cells: bool) -> None:
        self._cells = cells
        self._taken: set[str] = set()

    def record(self, shape: Shape, name: str) -> dict[str, Any]:
        own = unique_name(name, self._taken)
        fields = [
            self._field(source, safe, shape.fields[source], shape.objects, own)
            for source, safe in safe_names(shape.fields).items()
        ]
        return {"type": "record", "name": own, "fields": fields}

    def _field(self, source: str, name: str, shape: Shape, rows: int, owner: str) -> dict[str, Any]:
        kind = self._cell(shape) if self._cells else self._type(shape, f"{owner}_{name}", rows)
        field: dict[str, Any] = {"name": name, "type": kind}
        if isinstance(kind, list) and kind[0] == "null":
            field["default"] = None
        if name != source:
            field[SOURCE] = source
        return field

    def _type(self, shape: Shape, name: str, expected: int) -> Any:
        """``expected`` is how often a value could have stood here; fewer means it was missing."""
        kinds: list[Any] = []
        if shape.booleans:
            kinds.append("boolean")
        if shape.doubles or shape.longs:
            kinds.append("double" if shape.doubles else "long")
        if shape.strings:
            kinds.append("string")
        if shape.lists:
            items = shape.items or Shape()
            kinds.append({"type": "array", "items": self._type(items, f"{name}_item", items.seen)})
        if shape.objects:
            # A record without fields takes no bytes, and a list of such is not decoded.
            kinds.append(self.record(shape, name) if shape.fields else EMPTY_OBJECT)
        if not kinds:
            return NOTHING_SEEN
        if shape.nulls or shape.seen < expected:
            return ["null", *kinds]
        return kinds[0] if len(kinds) == 1 else kinds

    def _cell(self, shape: Shape) -> Any:
        """One type for a whole column: where the cells differ, they are all texts."""
        kinds = {
            "boolean": shape.booleans,
            "double" if shape.doubles else "long": shape.longs + shape.doubles,
            "string": shape.strings,
        }
        seen = [kind for kind, count in kinds.items() if count]
        if not seen:
            return NOTHING_SEEN
        # In a column of texts an empty cell is a text, too.
        if len(seen) > 1 or seen == ["string"]:
            return "string"
        return ["null", seen[0]] if shape.nulls else seen[0]
