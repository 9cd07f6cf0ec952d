"""A request without HTTP: what a page is asked for. Values in an address may be anything: nothing
here raises, and what was taken instead is collected in ``notes``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import Connection

from tallymark.errors import UserError
from tallymark_audit.model.time_format import LARGEST, parse_time
from tallymark_audit.store.reading.age import AuditAge
from tallymark_dashboards.access.user import User
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.time_range import SHOWN, TimeRange

LONGEST_VALUE: Final = 300
MOST_PAGES: Final = 100_000
MOST_VALUES: Final = 40
_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
LEFT_OUT: Final = "it is left out"


class Paging(NamedTuple):
    """A page of a list: its ``number``, from 1; how many ``pages`` there are; and how many rows
    come before it (``skip``)."""

    number: int
    pages: int
    skip: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What a page function gets. ``reading`` is one snapshot of the store; None on pages that need
    no store. ``query``: as it came, bounded by :func:`bounded`. ``now``: ms. ``age_known``: how old
    the audit is; every page shows it where that is too old. ``notes``: what was taken instead of
    what the query says; each is shown once on the page. ``away``: why the store cannot be read
    now."""

    context: Context
    reading: Connection | None
    now: int
    query: Mapping[str, str]
    user: User
    range: TimeRange
    age_known: AuditAge | None
    notes: list[str] = field(default_factory=list[str])
    away: str = ""

    @property
    def connection(self) -> Connection:
        """The snapshot of the store, on a page that needs it."""
        assert self.reading is not None, "the page is registered with needs_store=False"
        return self.reading

    @property
    def age(self) -> AuditAge:
        """How old the audit is, on a page that needs the store."""
        assert self.age_known is not None, "the page is registered with needs_store=False"
        return self.age_known

    def text(self, name: str, default: str = "") -> str:
        """A value without the spaces around it."""
        return self.query.get(name, "").strip() or default

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number from ``least`` to ``most``; the nearest of them if it is beyond."""
        found = self.number_if(name, least, most, f"{default:,} is taken")
        return default if found is None else found

    def number_if(self, name: str, least: int, most: int, instead: str = LEFT_OUT) -> int | None:
        """The same; None: there is none, or it is none. ``instead``: what the page does then."""
        said = self.text(name)
        if not said:
            return None
        if _NUMBER.fullmatch(said) is None:
            self._note(f"{name}={said[:SHOWN]} is no number: {instead}")
            return None
        asked = int(said)
        if not least <= asked <= most:
            beyond = f"below {least:,}" if asked < least else f"more than {most:,}"
            taken = min(max(asked, least), most)
            self._note(f"{name}={_cut(f'{asked:,}')} is {beyond}: {taken:,} is taken")
            return taken
        return asked

    @property
    def page_asked(self) -> int:
        """The page of a list that the address names, whether there is one or not; nothing is
        noted: :meth:`paging` does."""
        said = self.text("page")
        number = int(said) if _NUMBER.fullmatch(said) else 1
        return min(max(number, 1), MOST_PAGES)

    def paging(self, count: int, rows: int) -> Paging:
        """The page that ``page`` names of a list of ``count`` rows, so many ``rows`` on each; the
        last one if it is beyond."""
        pages = max(1, -(-count // rows))
        if self.page_asked > pages:
            asked = _cut(f"{int(self.text('page')):,}")
            self._note(f"there is no page {asked}: page {pages:,} is shown")
            number = pages
        else:
            number = self.number("page", 1, 1, pages)
        return Paging(number, pages, (number - 1) * rows)

    def one_of(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of these values; ``""`` is none of them, which the page shows as all."""
        said = self.text(name)
        if not said or said in choices:
            return said or default
        known = ", ".join(one for one in choices if one)
        taken = f"{default} is taken" if default else LEFT_OUT
        self._note(f"{name}={said[:SHOWN]} is none of {known}: {taken}")
        return default

    def moment(self, name: str, instead: str = LEFT_OUT) -> int | None:
        """A time (ms): a number of ms, ISO 8601 or "10m" for ten minutes ago. None: there is none,
        or it is none. ``instead``: what the page does then."""
        said = self.text(name)
        if not said:
            return None
        try:
            at = parse_time(said, self.now)
        except UserError:
            at = -1
        if not 0 <= at <= LARGEST:
            self._note(f"{name}={said[:SHOWN]} is no time: {instead}")
            return None
        return at

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def bounded(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The query of an address, as far as a page reads it: the first value of each name, at most
    :data:`MOST_VALUES` names, each name and value cut at :data:`LONGEST_VALUE` characters; and
    notes about what was cut. Characters that no name can have (NUL, lone surrogates) are left
    out."""
    query: dict[str, str] = {}
    notes: list[str] = []
    for name, value in pairs:
        if len(query) >= MOST_VALUES:
            notes.append(f"the address has more than {MOST_VALUES} values: the others are left out")
            break
        if len(name) > LONGEST_VALUE or len(value) > LONGEST_VALUE:
            text = f"{name[:SHOWN]} is longer than {LONGEST_VALUE} characters: it is cut"
            notes.append(text)
        if name in query:
            notes.append(f"{_cut(name)} is in the address more than once: the first is taken")
        query.setdefault(_storable(name[:LONGEST_VALUE]), _storable(value[:LONGEST_VALUE]))
    return query, notes


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _storable(text: str) -> str:
    return text.replace("\0", "").encode(errors="ignore").decode()
