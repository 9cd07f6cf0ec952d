"""Parameters of paths and queries, read by the rules of JAX-RS.

A flag is true if it is ``true`` in upper or lower case, and false otherwise, never an error. What
should be a number and is none names nothing: 404.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Path, Query, Request
from pydantic import BeforeValidator

from tallymark_schema_registry.catalog.subject import (
    DEFAULT_CONTEXT,
    Subject,
    parse_subject,
)
from tallymark_schema_registry.web.paths import CONTEXT

Item = TypeVar("Item")
_MOST: Final = 2**31


def is_true(text: str) -> bool:
    return text.lower() == "true"


def integer(text: Any) -> int:
    """A number of 32 bits; ValueError: the caller answers 404."""
    digits = str(text).removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ValueError("not a number")
    number = int(text)
    if not -_MOST <= number < _MOST:
        raise ValueError("not a number of 32 bits")
    return number


_Flag = Annotated[bool, BeforeValidator(is_true)]
_Number = Annotated[int, BeforeValidator(integer)]


def _context_of(request: Request) -> str:
    """The context of the path, the default one where it names none."""
    found = request.scope.get(CONTEXT, DEFAULT_CONTEXT)
    assert isinstance(found, str)
    return found


async def _context(request: Request) -> str:
    return _context_of(request)


InContext = Annotated[str, Depends(_context)]


# Dependencies of dependencies would cost each request more than what they do.
async def _subject(
    request: Request,
    subject: Annotated[str, Path(description="Its name; `/` as `%2F`, other contexts as `:.c:s`")],
) -> Subject:
    return parse_subject(unquote(subject, errors="replace"), _context_of(request))


OnSubject = Annotated[Subject, Depends(_subject)]
"""The subject of the path. Routes see the path as it was sent, so it is decoded here."""


async def _place(request: Request) -> Subject:
    return Subject(_context_of(request), "")


OnContext = Annotated[Subject, Depends(_place)]
"""Where the config and the mode of the path's context are; the default one's is the global one."""

Version = Annotated[
    str,
    BeforeValidator(unquote),
    Path(
        description="A number, `latest`, or `-1` for the latest",
        json_schema_extra={"pattern": "^(latest|-1|[1-9][0-9]{0,8})$"},
    ),
]
SchemaId = Annotated[_Number, Path(description="The schema's id", json_schema_extra={"minimum": 1})]

Deleted = Annotated[_Flag, Query(description="Softly deleted ones too")]
DeletedOnly = Annotated[
    _Flag, Query(alias="deletedOnly", description="Only those that are softly deleted")
]
DeletedAsNegative = Annotated[
    _Flag, Query(alias="deletedAsNegative", description="Those softly deleted as negative numbers")
]
Permanent = Annotated[_Flag, Query(description="For ever; what is deleted softly can be restored")]
Normalize = Annotated[_Flag, Query(description="Compare and store in the normal form")]
Force = Annotated[_Flag, Query(description="Without the checks")]
Verbose = Annotated[_Flag, Query(description="With the reasons")]
DefaultToGlobal = Annotated[
    _Flag, Query(alias="defaultToGlobal", description="What is in force, where nothing is set")
]
OfSubject = Annotated[
    str, Query(alias="subject", description="Where it is looked for first; names the context too")
]
Format = Annotated[str, Query(description="`resolved`: with the references written out")]
ReferenceFormat = Annotated[
    str, Query(alias="referenceFormat", description="`qualified`: subjects with their context")
]
SubjectPrefix = Annotated[
    str | None,
    Query(alias="subjectPrefix", description="What names begin with; `:*:` for all contexts"),
]
Since = Annotated[_Number, Query(description="The last change that is known")]


class Page(NamedTuple):
    """``limit`` None: no limit."""

    offset: int
    limit: int | None

    def of(self, items: list[Item]) -> list[Item]:
        """This part of all items."""
        end = None if self.limit is None else self.offset + self.limit
        return items[self.offset : end]


async def _page(
    offset: Annotated[_Number, Query(description="How many are left out")] = 0,
    limit: Annotated[_Number, Query(description="At most so many; 0 or less: all")] = -1,
) -> Page:
    return Page(max(0, offset), limit if limit > 0 else None)


Paging = Annotated[Page, Depends(_page)]
