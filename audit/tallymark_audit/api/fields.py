"""The fields of the answers: what each means, for the OpenAPI document, and how CSV shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["text", "number", "share", "time", "flag", "list", "object"]
_TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "number": {"type": "integer"},
    "share": {"type": "number"},
    "time": {"type": "integer", "format": "int64"},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "items": {}},
    "object": {"type": "object"},
}


@dataclass(frozen=True, slots=True)
class Field:
    """What a field means. A ``time`` is ms UTC in JSON, and ISO 8601 in CSV; ``may_lack``: it can
    be null."""

    kind: Kind
    text: str
    may_lack: bool = False

    def schema(self) -> dict[str, Any]:
        """For the OpenAPI document."""
        told = f"{self.text} ms UTC." if self.kind == "time" else self.text
        kind = dict(_TYPES[self.kind])
        if self.may_lack:
            kind["type"] = [kind["type"], "null"]
        return {**kind, "description": told}


Fields = Mapping[str, Field]


def row_schema(fields: Fields, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Of an object with these fields, and ``others`` whose schemas are given."""
    properties = {name: one.schema() for name, one in fields.items()} | dict(others or {})
    return {"type": "object", "required": sorted(properties), "properties": properties}


def rows_schema(fields: Fields, text: str = "", may_have: Fields | None = None) -> dict[str, Any]:
    """Of a list of objects with these fields; some have the fields ``may_have``, too."""
    told = {"description": text} if text else {}
    row = row_schema(fields)
    row["properties"] |= {name: one.schema() for name, one in (may_have or {}).items()}
    return {"type": "array", "items": row, **told}


def number(text: str) -> Field:
    """A count of something."""
    return Field("number", text)


def text(meaning: str) -> Field:
    """A text."""
    return Field("text", meaning)


def time(meaning: str) -> Field:
    """A moment."""
    return Field("time", meaning)


def flag(meaning: str) -> Field:
    """Yes or no."""
    return Field("flag", meaning)


def listed(meaning: str) -> Field:
    """A list."""
    return Field("list", meaning)


PLACE: Final[Fields] = {
    "edge": text("The hop, as in dc1-to-aggregate."),
    "topic": text("The topic, as it is called upstream."),
}
BALANCED: Final[Fields] = {
    "claimed": number("Messages that have to be there: observed + pending + missing + explained."),
    "observed": number("Claimed messages that are there, each once."),
    "pending": number("Claimed messages that have not arrived while that is not decided."),
    "missing": number("Claimed messages that are lost."),
    "explained": number("Claimed messages whose absence has a stated reason."),
    "duplicates": number("Copies beyond the first of each message."),
    "unclaimed": number("Messages that are there without a claim."),
    "excused": number("Messages refused or in doubt: never claimed, and absent."),
}
VERDICT: Final[Fields] = {
    **PLACE,
    "window": time("The start of the window,"),
    "source": text("Who judged: collector or spark."),
    "state": text("OPEN, SETTLING, COMPLETE, EXPLAINED, UNKNOWN, UNCLAIMED, LOSS, ..."),
    "revision": number("How often the verdict has changed."),
    "judged_at": time("When it was judged,"),
    **BALANCED,
    "reasons": listed("Why it has this state."),
    "accepted_by": text("Who accepted the window as it is."),
}
SUMMARY: Final[Fields] = {
    **PLACE,
    "states": Field("object", "How many windows are in each state."),
    **BALANCED,
    "first_window": time("The earliest window that is kept,"),
    "last_window": time("The latest one,"),
    "through": time("All stamped before is accounted for (-1: no watermark yet),"),
    "horizon": time("Up to then the absence of records can be trusted (-1: not known),"),
    "holes": listed("Windows below the horizon that are not good: start, state, accepted."),
    "skewed": text("Whose clock is ahead and by how much, where windows lie in the future."),
}
WATERMARK: Final[Fields] = {
    **PLACE,
    "through": time("All stamped before is accounted for,"),
    "horizon": time("Up to then the absence of records can be trusted,"),
    "holes": listed("Windows below the horizon that are not good: window, state, accepted."),
    "at": time("When that was found,"),
}
REPORTER: Final[Fields] = {
    "cluster": text("The cluster about which it reports."),
    "reporter": text("Its name: a run of a program."),
    "kind": text("producer, consumer, mirror or lake."),
    "tier": text("The side of a hop that it reports on."),
    "server": text("The host it runs on."),
    "application": text("The program, as it calls itself."),
    "instance": text("The run, as its stamps have it (hex)."),
    "consumer_group": text("The group of a consumer."),
    "acks": number("The acks of a producer; -1: all, or not known."),
    "backfill": flag("Its records are older than its run."),
    "first_seen": time("Its first report,"),
    "last_heard": time("Its last report,"),
    "covered": number("The number of its last event before which none is missing."),
    "complete_through": time("All its claims up to then have arrived,"),
    "closed": flag("It has ended by itself: all is reported."),
    "retired_at": time("When a person ended it; 0: not."),
}
ALERT: Final[Fields] = {
    "fingerprint": text("Names the alert; the same fault has the same."),
    "rule": text("The rule that found it."),
    "status": text("pending, firing or resolved."),
    "labels": Field("object", "What it is about."),
    "annotations": Field("object", "What it says."),
    "starts_at": time("Since when it holds,"),
    "ends_at": time("When it was over; 0: it is not,"),
    "told": text("What the webhook accepted last: firing, resolved; nobody: it was not sent."),
    "told_at": time("When it was posted last; 0: never,"),
}
