"""How a run of the load is called in the history of its tables, and what that says. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tallymark_spark_jobs.lake.table import Commit, LakeTable

_PART: Final = " part"
_NAME: Final = re.compile(r"load (\d+) [0-9a-f]+( part)?")
_BACK: Final = 16
"""So many versions are looked at first; then twice as many each time."""


def run_name(as_of_ms: int) -> str:
    """A name for a run that fixed the ends of what it loads at ``as_of_ms``."""
    return f"load {as_of_ms} {uuid.uuid4().hex[:12]}"


def part_of(run: str) -> str:
    """The name of a commit behind which the run has more to load into the same table."""
    return run + _PART


def complete_as_of(job: str) -> int | None:
    """The time (ms) up to which a commit of that name brought everything; None: it did not, or was
    of another kind."""
    found = _NAME.fullmatch(job)
    return None if found is None or found[2] else int(found[1])


def loaded_as_of(table: LakeTable, version: int) -> int | None:
    """The latest time as of which everything was in the table, for the version that was opened."""
    step, end = _BACK, version + 1
    while end > 0:
        since = max(0, end - step)
        found = _latest(table.history(since), end)
        if found is not None:
            return found
        step, end = step * 2, since
    return None


def _latest(commits: Iterable[Commit], end: int) -> int | None:
    times = [
        at
        for one in commits
        if one.version < end
        and one.operation == "load"
        and (at := complete_as_of(one.job)) is not None
    ]
    return max(times, default=None)
