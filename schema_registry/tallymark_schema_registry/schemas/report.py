"""The report on a new schema: why it is refused, what to look at, and what to change.

The rules speak of a reader and a writer. A user who registers a schema thinks of the new one and
the old one, and can change only the new one: here each reason names both, and how to mend the new
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tallymark_schema_registry.schemas.budget import Budget, TooLargeError
from tallymark_schema_registry.schemas.compatibility import (
    MAX_REASONS,
    Incompatibility,
    incompatibilities,
    shortened,
)
from tallymark_schema_registry.schemas.defaults import DefaultCheck
from tallymark_schema_registry.schemas.logical import logical_changes
from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Field,
    Map,
    Node,
    Record,
    Schema,
    Union,
)

NEW: Final = "new"
OLD: Final = "old"


@dataclass(frozen=True, slots=True)
class Finding:
    """``path`` is a JSON pointer into the schema that ``schema`` names (NEW or OLD), each type
    written where it is used. ``fix`` is what to change in the new schema. A warning
    (``refuses`` False) does not make the schema incompatible."""

    rule: str
    path: str
    text: str
    fix: str
    info: str
    schema: str = NEW
    refuses: bool = True

    def message(self) -> str:
        """One line, in the form that clients of Confluent's registry know."""
        return (
            f"{{errorType:'{self.rule}', description:'at path {self.path}: {self.text} "
            f"({self.fix})', additionalInfo:'{self.info}'}}"
        )


def compare(
    new: Schema,
    old: Schema,
    *,
    backward: bool,
    forward: bool,
    logical: bool = False,
    warn: bool = True,
    budget: Budget | None = None,
) -> list[Finding]:
    """What stands against ``new`` after ``old``: what the old schema cannot read of the new one's
    data (``forward``), then what the new one cannot read of the old one's (``backward``). Changes
    of logical types are warnings, or reasons to refuse with ``logical``; without ``warn`` they are
    looked for only there.

    Compatible if no finding ``refuses``. Raises :class:`~.budget.TooLargeError`."""
    budget = budget or Budget()
    found: list[Finding] = []
    if forward:
        found += [_forward(item) for item in incompatibilities(old, new, budget)]
    if backward:
        found += [_backward(item) for item in incompatibilities(new, old, budget)]
    if forward and (logical or warn):
        found += [_forward(item, logical) for item in logical_changes(old, new, budget)]
    if backward and (logical or warn):
        found += [_backward(item, logical) for item in logical_changes(new, old, budget)]
    return found


def doubts(schema: Schema, budget: Budget | None = None) -> list[Finding]:
    """What is wrong with the defaults of a schema, and taken all the same: of an enum a text that
    is no symbol (Java takes it; readers of old data get an error), and in stored versions any.
    Only of what the text itself defines. Raises TooLargeError."""
    budget = budget or Budget()
    budget.doing = "to check its defaults"
    try:
        return list(islice(_doubts(schema, budget), MAX_REASONS))
    except RecursionError:  # defaults of a version that is stored were never followed
        raise TooLargeError("it is nested too deeply to check its defaults") from None


def _doubts(schema: Schema, budget: Budget) -> Iterator[Finding]:
    loose, strict = DefaultCheck(schema, budget), DefaultCheck(schema, budget, symbols=True)
    for path, field in _fields(schema.root, ""):
        budget.spend()
        if field.default is not MISSING and not strict.fits_field(field):
            yield _doubt(field, path, loose.fits_field(field))


def _doubt(field: Field, path: str, fits: bool) -> Finding:
    rule = "DEFAULT_IS_NO_SYMBOL" if fits else "DEFAULT_DOES_NOT_FIT"
    what = "holds a text that is no symbol of its enum" if fits else "does not fit its type"
    name = shortened(field.name)
    text = f"the default of field '{name}' {what}"
    fix = "use a symbol, or add it to `symbols`" if fits else "use a value of the type"
    return Finding(rule, f"{path}/default", text, fix, name, refuses=False)


def _fields(node: Node, path: str) -> Iterator[tuple[str, Field]]:
    """Every field that is defined within the node, and the pointer to it."""
    if isinstance(node, Record):
        for index, field in enumerate(node.fields):
            place = f"{path}/fields/{index}"
            yield place, field
            yield from _fields(field.type, f"{place}/type")
    elif isinstance(node, Array):
        yield from _fields(node.items, f"{path}/items")
    elif isinstance(node, Map):
        yield from _fields(node.values, f"{path}/values")
    elif isinstance(node, Union):
        for index, branch in enumerate(node.branches):
            yield from _fields(branch, f"{path}/{index}")


def _backward(item: Incompatibility, refuses: bool = True) -> Finding:
    text = _roles(item.text, NEW, OLD)
    return Finding(item.kind, item.path, text, item.fix, item.info, NEW, refuses)


def _forward(item: Incompatibility, refuses: bool = True) -> Finding:
    text = _roles(item.text, OLD, NEW)
    return Finding(item.kind, item.path, text, item.writer_fix, item.info, OLD, refuses)


def _roles(text: str, reader: str, writer: str) -> str:
    return text.replace("the reader", f"the {reader} schema").replace(
        "the writer", f"the {writer} schema"
    )
