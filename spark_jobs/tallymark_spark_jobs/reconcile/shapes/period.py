"""Which windows a run judges: half-open, UTC, widened to whole windows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time, utc

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Period:
    """``start`` (included) to ``end`` (excluded), ms UTC, both on the edge of a window. ``start``
    None: from the beginning of the logs, with what carries no time at all."""

    start: int | None
    end: int

    def holds(self, window: int) -> bool:
        """Whether the window (start, ms) is one of the period's."""
        return window < self.end and (self.start is None or window >= self.start)

    def __str__(self) -> str:
        begin = "the beginning of the logs" if self.start is None else utc(self.start)
        return f"{begin} to {utc(self.end)}"


def parse_period(
    start: str | None,
    end: str | None,
    everything: bool,
    window_ms: int,
    now_ms: int,
    recheck_days: int = 0,
) -> Period:
    """The period of ``--from``, ``--to`` and ``--all``. Without any of them: yesterday. ``--from``
    alone ends now, ``--to`` alone begins a day earlier. ``recheck_days``: so many days before that
    too, since data and repairs may have come late. UserError: no such time, or an empty range."""
    if everything:
        if start or end or recheck_days:
            raise UserError("--all excludes --from, --to and --recheck-days", "give either")
        return Period(None, _up(now_ms, window_ms))
    if start is None and end is None:
        last = now_ms - now_ms % DAY_MS
        first = last - DAY_MS
    else:
        last = parse_time(end, now_ms) if end else now_ms
        first = parse_time(start, now_ms) if start else last - DAY_MS
    if first >= last:
        raise UserError(
            f"the range from {utc(first)} to {utc(last)} is empty", "--to has to be after --from"
        )
    first = max(0, first - recheck_days * DAY_MS)
    return Period(first - first % window_ms, _up(last, window_ms))


def _up(moment: int, window_ms: int) -> int:
    return -(-moment // window_ms) * window_ms
