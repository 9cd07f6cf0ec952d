"""Rights on subjects, given by patterns. Pure.

=========  ========================================================================================
right      allows
=========  ========================================================================================
``read``   get, list and look up versions and schemas, check compatibility, read levels and modes
``write``  register; and ``read``
``delete`` delete versions and subjects, undo that; and ``read``
``admin``  set and delete levels, modes and contexts, register without a check; and all of the above
=========  ========================================================================================

A pattern is ``NAME`` for subjects of the default context, or ``:CONTEXT:NAME``; ``*`` in either
stands for any characters, none included::

    orders-*       of the default context        :.dc2:*    all of the context .dc2
    *              all of the default context    :*:*       all there is

The name of a context's own level and mode is empty, so patterns whose name is ``*`` include them.
A principal that may read any subject of a context may also read the context's own level and mode,
and those of ``:.__GLOBAL:``: they hold for the subjects that may be read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tallymark_schema_registry.catalog.subject import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    MAX_NAME,
    Subject,
)


class Right(StrEnum):
    """What a principal may do with a subject; also a kind of operation, by the right it needs."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    ADMIN = "admin"


INCLUDED: Final[Mapping[Right, frozenset[Right]]] = {
    Right.READ: frozenset({Right.READ}),
    Right.WRITE: frozenset({Right.READ, Right.WRITE}),
    Right.DELETE: frozenset({Right.READ, Right.DELETE}),
    Right.ADMIN: frozenset(Right),
}
"""Right -> the rights that come with it."""

EVERYTHING: Final = ":*:*"
"""The pattern of all subjects of all contexts."""

_NUMBERS: Final = itertools.count(1)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """``right`` on the subjects that ``pattern`` matches."""

    right: Right
    pattern: str

    def __post_init__(self) -> None:
        split_pattern(self.pattern)


class Grants:
    """All rights of a principal. ``view`` is a number that no other object has had in this process:
    what was remembered for it is true for no other rights."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self.listed = tuple(sorted(set(grants)))
        self.view = next(_NUMBERS)
        self._names = {
            right: _any_of(
                _name_regex(each.pattern) for each in self.listed if right in INCLUDED[each.right]
            )
            for right in Right
        }
        self._contexts = _any_of(_context_regex(each.pattern) for each in self.listed)
        self.unlimited = Grant(Right.ADMIN, EVERYTHING) in self.listed
        """Whether every operation on every subject is allowed."""

    def allow(self, right: Right, subject: Subject) -> bool:
        """Whether an operation that needs ``right`` is allowed on ``subject``."""
        if self.unlimited:
            return True
        if self._names[right].fullmatch(f":{subject.context}:{subject.name}"):
            return True
        return right is Right.READ and not subject.name and self.reach(subject.context)

    def reach(self, context: str) -> bool:
        """Whether some subject of ``context`` could be read, were it there."""
        if context in (DEFAULT_CONTEXT, GLOBAL_CONTEXT):
            return True
        return self._contexts.fullmatch(context) is not None

    def all_of(self, right: Right, context: str) -> bool:
        """Whether ``right`` is given on every subject of ``context``, whatever its name."""
        return self.unlimited or any(
            name == "*" and re.fullmatch(_glob(of, "[^:]*"), context) is not None
            for each in self.listed
            if right in INCLUDED[each.right]
            for of, name in [split_pattern(each.pattern)]
        )


def allowed(grants: Iterable[Grant], operation: Right, subject: Subject) -> bool:
    """Whether ``grants`` allow an operation, named by the right that it needs."""
    return Grants(grants).allow(operation, subject)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or program that makes requests. ``name`` is kept with each version that it writes; ""
    where there are no log-ins."""

    name: str
    grants: Grants = field(compare=False)

    def may(self, right: Right, subject: Subject) -> bool:
        """Whether an operation that needs ``right`` is allowed on ``subject``."""
        return self.grants.allow(right, subject)


def split_pattern(pattern: str) -> tuple[str, str]:
    """The parts for context and name. ValueError where it is no pattern."""
    if not pattern or not pattern.isprintable() or len(pattern) > MAX_NAME:
        raise ValueError(f"{pattern[:100]!r} is no pattern of subjects")
    if not pattern.startswith(":"):
        return DEFAULT_CONTEXT, pattern
    context, colon, name = pattern[1:].partition(":")
    if not colon or not context.startswith((".", "*")):
        raise ValueError(f"{pattern[:100]!r} is no pattern: write NAME or :.CONTEXT:NAME")
    return context, name


def _any_of(expressions: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches what one of them matches; nothing where there is none."""
    return re.compile("|".join(f"(?:{each})" for each in expressions) or "(?!)", re.DOTALL)


def _name_regex(pattern: str) -> str:
    context, name = split_pattern(pattern)
    return f":{_glob(context, '[^:]*')}:{_glob(name, '.*')}"


def _context_regex(pattern: str) -> str:
    return _glob(split_pattern(pattern)[0], "[^:]*")


def _glob(pattern: str, any_characters: str) -> str:
    """A regular expression for a text with ``*``. Each part between two stars is matched where it
    is found first and not anywhere else (an atomic group), so that no name, however long, makes the
    search start over and over."""
    first, *others = pattern.split("*")
    if not others:
        return re.escape(first)
    *middle, last = others
    parts = [f"(?>{any_characters}?{re.escape(part)})" for part in middle if part]
    return re.escape(first) + "".join(parts) + any_characters + re.escape(last)


ALL: Final = Grants([Grant(Right.ADMIN, EVERYTHING)])
EVERYBODY: Final = Principal("", ALL)
"""The principal of every request where there are no log-ins: without a name, with all rights."""
