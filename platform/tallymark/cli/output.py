"""What administrative commands print, and how they end.

A table on a terminal; elsewhere one line a row, tabs between the columns, a line of their names
first; ``--json``: a list of objects with all there is to tell. What failed is told on standard
error, one line each. Exit codes: 0 all was done, 1 nothing was, 2 a part of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from tallymark.errors import TallymarkError

if TYPE_CHECKING:
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])

Row: TypeAlias = Mapping[str, Any]
FAILED: Final = 1
PARTLY: Final = 2

json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print a list of JSON objects."
)


def show(rows: Iterable[Row], columns: Sequence[str], as_json: bool) -> None:
    """Print ``rows``; those of a table show ``columns`` only, a missing value as ``-``."""
    found = list(rows)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        from rich.console import Console  # 0.05 s to import: not for files and pipes

        Console().print(_table(found, columns))
    else:
        for line in ([name.upper() for name in columns], *(_cells(row, columns) for row in found)):
            click.echo("\t".join(line))


def tell(line: str, as_json: bool = False) -> None:
    """A word about what was done: not among JSON."""
    click.echo(line, err=as_json)


def end(done: int, errors: Mapping[Any, TallymarkError] | Sequence[TallymarkError]) -> None:
    """Tell what failed, and exit with 1 when nothing was done, 2 when a part was."""
    failed = list(errors.values()) if isinstance(errors, Mapping) else list(errors)
    for error in failed:
        click.echo(f"tallymark: {error}", err=True)
    if failed:
        raise click.exceptions.Exit(PARTLY if done else FAILED)


def _table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        number = any(isinstance(row.get(name), int) for row in rows)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in _cells(row, columns)))
    return table


def _cells(row: Row, columns: Sequence[str]) -> list[str]:
    return [_text(row.get(name)) for name in columns]


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
