"""What administrative commands print, and how they end.

A table on a terminal; elsewhere one line a row, tabs between the columns, a line of their names
first; ``--json``: a list of objects with all that is known. What failed is printed on standard
error, one line each. Exit codes: 0 all was done, 1 nothing was, 2 a part of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from tallymark.errors import TallymarkError
from tallymark.untrusted import LINES, escaped, escaped_json

if TYPE_CHECKING:
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])

Row: TypeAlias = Mapping[str, Any]
FILE_WIDTH: Final = 160
"""Columns of a table in a file or a pipe: as wide as it needs, not 80."""
MOST_WIDTH: Final = 10_000
FAILED: Final = 1
PARTLY: Final = 2
SENTENCE: Final = 40
"""Columns that a sentence gets where lines are longer than the terminal anyway."""

json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print a list of JSON objects."
)


json_result: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as a JSON object."
)


def show(rows: Iterable[Row], columns: Sequence[str] | Mapping[str, str], as_json: bool) -> None:
    """Print ``rows``; those of a table show ``columns`` only (keys of rows, or keys ->
    titles), a missing value as ``-``."""
    found = list(rows)
    titles = columns if isinstance(columns, Mapping) else {name: name.upper() for name in columns}
    if as_json:
        click.echo(escaped_json(json.dumps(found, indent=2, ensure_ascii=False)))
    elif sys.stdout.isatty():
        print_table(_table(found, titles))
    else:
        for line in (list(titles.values()), *(_cells(row, titles) for row in found)):
            click.echo("\t".join(line))


def print_table(table: Table) -> None:
    """Print a table for people, on the terminal or into a file.

    Where the terminal is narrow, sentences are wrapped between words. A word (a time, a name, an
    offset) is never cut: where even that has no room, lines are longer than the terminal, which
    breaks them by itself. Then sentences get room, too: a word a line would be no better.
    """
    from rich.console import Console  # 0.05 s to import: not for commands that print no table

    console = Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)
    for column in table.columns:
        words = [_words(cell) for cell in (column.header, *column.cells)]
        column.no_wrap = all(len(one) < 2 for one in words[1:])
        column.min_width = max((_width(word) for one in words for word in one), default=None)
    wide = console.options.update(width=MOST_WIDTH)
    if console.measure(table, options=wide).minimum > console.width:
        for column in table.columns:
            if not column.no_wrap:
                longest = max(_width(" ".join(_words(cell))) for cell in column.cells)
                column.min_width = max(column.min_width or 0, min(longest, SENTENCE))
        console = Console(width=console.measure(table, options=wide).minimum)
    console.print(table, crop=False)


def _width(word: str) -> int:
    from rich.cells import cell_len

    return cell_len(word)


def _words(cell: object) -> list[str]:
    from rich.text import Text

    return (Text.from_markup(cell) if isinstance(cell, str) else Text(str(cell))).plain.split()


def print_line(line: str, as_json: bool = False) -> None:
    """Print what was done; with ``as_json`` on standard error. Names in it may come from clients:
    what a terminal would obey is escaped."""
    click.echo(escaped(line, LINES), err=as_json)


def end(done: int, errors: Mapping[Any, TallymarkError] | Sequence[TallymarkError]) -> None:
    """Print what failed, and exit with 1 when nothing was done, 2 when a part was."""
    failed = list(errors.values()) if isinstance(errors, Mapping) else list(errors)
    for error in failed:
        click.echo(f"tallymark: {escaped(str(error), LINES)}", err=True)
    if failed:
        raise click.exceptions.Exit(PARTLY if done else FAILED)


def _table(rows: Sequence[Row], titles: Mapping[str, str]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name, title in titles.items():
        number = any(isinstance(row.get(name), int) for row in rows)
        table.add_column(title, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in _cells(row, titles)))
    return table


def _cells(row: Row, names: Iterable[str]) -> list[str]:
    return [escaped(_text(row.get(name))) for name in names]


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
