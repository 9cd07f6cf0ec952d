"""Which kinds of values a field had over many rows, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tallymark.errors import UserError

MAX_DEPTH: Final = 32
"""Objects and lists within each other; what is deeper does not fit and is refused later."""
MAX_FIELDS: Final = 2_000
"""Different names in all. Objects whose keys are data (ids, dates) would otherwise grow a schema
without end."""
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@dataclass(slots=True)
class Budget:
    """How many more names a schema may get."""

    fields: int = MAX_FIELDS

    def take(self, name: str) -> None:
        self.fields -= 1
        if self.fields < 0:
            raise UserError(
                f"the input has more than {MAX_FIELDS} different fields ({name[:50]!r} is one)",
                "give a schema with --schema, with a map where keys are data",
            )


@dataclass(slots=True)
class Shape:
    """Counts by kind. ``fields`` are those of all objects seen here, ``items`` of all lists."""

    nulls: int = 0
    booleans: int = 0
    longs: int = 0
    doubles: int = 0
    strings: int = 0
    lists: int = 0
    objects: int = 0
    items: Shape | None = None
    fields: dict[str, Shape] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        """How many values there were, of any kind."""
        return (
            self.nulls + self.booleans + self.longs + self.doubles
            + self.strings + self.lists + self.objects
        )  # fmt: skip

    def add(self, value: Any, budget: Budget, depth: int = 0) -> None:
        """Take one JSON value in. Integers beyond 64 bits count as nothing: no type holds them."""
        if value is None:
            self.nulls += 1
        elif isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, int):
            self.longs += LONG_MIN <= value <= LONG_MAX
        elif isinstance(value, float):
            self.doubles += 1
        elif isinstance(value, str):
            self.strings += 1
        elif depth < MAX_DEPTH:
            self._add_nested(value, budget, depth + 1)

    def _add_nested(self, value: Any, budget: Budget, depth: int) -> None:
        if isinstance(value, list):
            self.lists += 1
            self.items = self.items or Shape()
            for item in value:
                self.items.add(item, budget, depth)
            return
        self.objects += 1
        for name, item in value.items():
            if name not in self.fields:
                budget.take(name)
                self.fields[name] = Shape()
            self.fields[name].add(item, budget, depth)
