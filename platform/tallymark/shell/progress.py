"""What a person sees of long work: a bar on a terminal, a line now and then elsewhere.

The one way that commands do it; always on standard error.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import click

LINE_EVERY_S: Final = 10.0
_BAR_EVERY_S: Final = 0.1

Show: TypeAlias = Callable[[int, str], object]
"""``show(done, text)``: so much of the total is done, and what to say beside it."""


class Meter:
    """Shows how far the work is, but no more often than every ``interval`` seconds."""

    def __init__(
        self, interval: float, show: Show, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._show = show
        self._clock = clock
        self._last = clock()

    def tick(self, state: Callable[[], tuple[int, str]]) -> None:
        """Call it as often as you like; ``state`` gives (done, text) when it is time to show."""
        now = self._clock()
        if now - self._last >= self._interval:
            self._last = now
            self._show(*state())


@contextmanager
def progress(
    name: str,
    total: int | None,
    tell: Callable[[str], object] | None = None,
    *,
    quiet: bool = False,
    keep: bool = True,
) -> Iterator[Meter]:
    """A meter of work called ``name``; ``total`` in the unit that it will be shown, None when not
    known. Where standard error is no terminal ``tell`` gets a line (default: it is printed).
    ``quiet`` shows nothing: a bar would disturb a person who types on the same terminal. ``keep``:
    the bar stays when the work has ended."""
    if quiet:
        yield Meter(math.inf, lambda done, text: None)
        return
    if sys.stderr.isatty():
        with _bar(name, total, keep) as show:
            yield Meter(_BAR_EVERY_S, show)
        return

    def line(done: int, text: str) -> None:
        share = f"{100 * done // total} %, " if total else ""
        (tell or _print)(f"{share}{text}")

    yield Meter(LINE_EVERY_S, line)


def _print(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _bar(name: str, total: int | None, keep: bool) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn(name, markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
    ]
    # What the command prints goes where it belongs, not to the bar.
    console = Console(stderr=True)
    with Progress(*columns, console=console, redirect_stdout=False, transient=not keep) as bar:
        task = bar.add_task("", total=total, text="")
        yield lambda done, text: bar.update(task, completed=done, text=text)
