"""Progress of a publishing run, on standard error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tallymark.publishing.publisher import Counts
from tallymark.publishing.reading.sources import Source
from tallymark.shell import progress as meters

_log = logging.getLogger("publish")

Tick = Callable[[Counts], None]


@contextmanager
def progress(source: Source) -> Iterator[Tick]:
    """A function to call often, on standard error."""
    name = Path(source.name).name
    with meters.progress(name, source.total, tell=lambda text: _log.info("%s", text)) as meter:
        yield lambda counts: meter.tick(lambda: (source.position(), counts.text()))
