"""Rows of CSV. The first line names the columns; cells are texts until the schema types them."""

from __future__ import annotations

import csv
from typing import Final

from tallymark.publishing.reading.lines import MAX_LINE
from tallymark.publishing.reading.rows import Bad, Line, Lines, Row, Rows

DELIMITERS: Final = ",;\t|"
MAX_RECORD_LINES: Final = 1_000
"""Lines of one record: a quoted cell may hold newlines, a quote that is never closed must end."""
_UNFINISHED: Final = "unexpected end of data"


def csv_delimiter(header: str) -> str:
    """The delimiter that splits the header into the most columns."""
    return max(DELIMITERS, key=lambda delimiter: len(parse_record([header], delimiter)))


def parse_record(lines: list[str], delimiter: str) -> list[str]:
    """The cells of one record. Raises csv.Error; :data:`_UNFINISHED` if a quote is still open."""
    csv.field_size_limit(MAX_LINE)
    rows = list(csv.reader([f"{line}\n" for line in lines], delimiter=delimiter, strict=True))
    return rows[0] if rows else []


def csv_rows(lines: Lines) -> Rows:
    """Rows by column names. Blank lines are skipped; a record of another width is Bad."""
    parser = _Parser()
    for line in lines:
        if not isinstance(line, Line):
            yield line
        elif (row := parser.feed(line)) is not None:
            yield row
    if parser.pending:
        yield parser.give_up("a quoted cell is not closed")


class _Parser:
    def __init__(self) -> None:
        self._columns: list[str] | None = None
        self._delimiter = ","
        self.pending: list[Line] = []

    def feed(self, line: Line) -> Row | Bad | None:
        """A row when its last line is there."""
        if not self.pending and not line.text.strip():
            return None
        if self._columns is None:
            return self._header(line)
        self.pending.append(line)
        try:
            cells = parse_record([part.text for part in self.pending], self._delimiter)
        except csv.Error as error:
            if str(error) != _UNFINISHED:
                return self.give_up(f"the line is not CSV: {error}")
            if len(self.pending) >= MAX_RECORD_LINES or self._size() > MAX_LINE:
                return self.give_up("a quoted cell is not closed")
            return None
        number, raw = self._take()
        if len(cells) != len(self._columns):
            reason = f"{len(cells)} cells, where the header has {len(self._columns)}"
            return Bad(number, reason, raw)
        return Row(number, None, dict(zip(self._columns, cells, strict=True)), raw)

    def give_up(self, reason: str) -> Bad:
        number, raw = self._take()
        return Bad(number, reason, raw)

    def _header(self, line: Line) -> Bad | None:
        self._delimiter = csv_delimiter(line.text)
        try:
            cells = parse_record([line.text], self._delimiter)
        except csv.Error as error:
            return Bad(line.number, f"the header is not CSV: {error}", line.text)
        self._columns = _unique(cells)
        return None

    def _take(self) -> tuple[int, str]:
        number = self.pending[0].number
        raw = "\n".join(line.text for line in self.pending)
        self.pending.clear()
        return number, raw

    def _size(self) -> int:
        return sum(len(line.text) for line in self.pending)


def _unique(cells: list[str]) -> list[str]:
    """A name for every column: an empty one is called by its number, a second one gets a number."""
    names: list[str] = []
    for number, cell in enumerate(cells, 1):
        name = cell.strip() or f"column_{number}"
        names.append(name if name not in names else f"{name}_{number}")
    return names
