"""Judge windows apart from each other where one of them cannot be judged. Pure.

Rows of the store were written by programs of several versions, perhaps repaired by hand, and read
from a disk that may have aged. A row that makes no sense concerns its own window only: that window
is UNKNOWN, with the reason, and all others are judged as if the row did not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from tallymark_audit.judge.states import State
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.cells import Edge

log: Final = logging.getLogger(__name__)
UNJUDGED: Final = "cannot be judged: "
"""How the reason of such a verdict begins."""
Judge = Callable[[Sequence[int]], list[Verdict]]


def judge_apart(
    edge: Edge,
    topic: str,
    windows: Sequence[int],
    judge: Judge,
    passing: tuple[type[Exception], ...] = (),
) -> list[Verdict]:
    """The verdicts of these windows (starts, ms) of a topic on an edge, as ``judge`` gives them for
    any of them; of each one at which it fails the verdict that says why (:func:`unjudged`). Errors
    of the types ``passing`` do not concern a window, and are raised."""
    try:
        return judge(windows)
    except passing:
        raise
    except Exception as error:
        if len(windows) <= 1:
            return [unjudged(edge, topic, window, error) for window in windows]
    half = len(windows) // 2
    return [
        verdict
        for some in (windows[:half], windows[half:])
        for verdict in judge_apart(edge, topic, some, judge, passing)
    ]


def unjudged(edge: Edge, topic: str, window: int, error: Exception) -> Verdict:
    """The verdict of a window that cannot be judged, since judging it raised ``error``."""
    log.debug("%s %s %d cannot be judged", edge.name, topic, window, exc_info=error)
    return Verdict(edge.name, topic, window, State.UNKNOWN, reasons=(UNJUDGED + reason_of(error),))


def is_unjudged(verdict: Verdict) -> bool:
    """Whether it is one of :func:`unjudged`."""
    return bool(verdict.reasons) and verdict.reasons[0].startswith(UNJUDGED)
