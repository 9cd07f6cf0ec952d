"""The last lines of the demo: how to look at what it left. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallymark_audit.model.pages import topic_page, window_page
from tallymark_audit.model.time_format import utc

LINKS: Final = 4
"""Lost windows that are linked one by one; the overview has them all."""
LostWindow = tuple[str, str, int]
"""Edge, topic, start in ms."""


def last_lines(
    settings: Path, program: str, console: str, lost: Sequence[LostWindow], stays: bool
) -> list[str]:
    """What to type and where to look, after a run whose stack ``stays`` up or has stopped.

    ``program`` is how this machine's shell finds ``tallymark``; ``console`` where the dashboards
    answer, or will once they are started again: what they show is in the store, not in the stack.
    """
    where = "in another terminal; Ctrl-C here stops the stack" if stays else "the stack has stopped"
    return [
        f"to look around ({where}):",
        f"  export TALLYMARK_SETTINGS={settings.absolute()}",
        *(f"  {program} {command}" for command in _commands(lost, stays)),
        *_links(console, lost),
    ]


def _commands(lost: Sequence[LostWindow], stays: bool) -> list[str]:
    """Three that work: on the running stack, or on what it left."""
    edge, topic, window = lost[0] if lost else ("dc1-to-aggregate", "host_metrics", 0)
    evidence = f"audit evidence {edge} {topic} {utc(window)}"
    verdicts = f"audit verdicts --edge {edge} --topic {topic}"
    judged = evidence if lost else verdicts
    if stays:
        return [
            "status",
            judged,
            "consume host_metrics --cluster aggregate --avro --max-messages 5",
        ]
    return ["audit overview", judged, "dashboards"]


def _links(console: str, lost: Sequence[LostWindow]) -> list[str]:
    if not lost:
        return [f"nothing was lost: {topic_page(console)}"]
    more = len(lost) - LINKS
    all_of_them = [f"and {more} more: {topic_page(console)}"] if more > 0 else []
    return [*all_of_them, *(f"lost: {window_page(console, *one)}" for one in lost[:LINKS])]
