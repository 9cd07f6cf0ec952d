"""What a person sees meanwhile: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tallymark.cli.publishing.publisher import Counts
from tallymark.cli.publishing.sources import Source

LINE_EVERY_S: Final = 10.0
_BAR_EVERY_S: Final = 0.1

_log = logging.getLogger("publish")

Tick = Callable[[Counts], None]


@contextmanager
def progress(source: Source) -> Iterator[Tick]:
    """A function to call often, on standard error."""
    if sys.stderr.isatty():
        with _bar(source) as tick:
            yield tick
    else:
        yield _every(LINE_EVERY_S, lambda counts: _log.info("%s", counts.text()))


@contextmanager
def _bar(source: Source) -> Iterator[Tick]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn(Path(source.name).name, markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=source.total, counts="")

        def show(counts: Counts) -> None:
            text = f"{counts.acknowledged:,} acknowledged, {counts.rejected:,} rejected"
            bar.update(task, completed=source.position(), counts=text)

        yield _every(_BAR_EVERY_S, show)


def _every(interval_s: float, show: Tick) -> Tick:
    """``show``, but no more often than every ``interval_s`` seconds."""
    last = time.monotonic()

    def tick(counts: Counts) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= interval_s:
            last = now
            show(counts)

    return tick
