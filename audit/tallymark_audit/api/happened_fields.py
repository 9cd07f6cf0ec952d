"""The fields of what happened: incidents, log events, runs, repairs, decisions; see
:mod:`.fields`."""

from __future__ import annotations

from typing import Final

from tallymark_audit.api.fields import PLACE, Field, Fields, flag, listed, number, text, time

_WORST: Final[Fields] = {
    "missing": number("Messages that are missing now."),
    "duplicates": number("Messages that are there more than once now."),
    "unclaimed": number("Messages without a claim now."),
    "worst_missing": number("The most that ever were missing, summed over the windows."),
    "worst_duplicates": number("The same of duplicates."),
    "worst_unclaimed": number("The same of unclaimed messages."),
}
INCIDENT: Final[Fields] = {
    "id": number("The number of the incident."),
    **PLACE,
    "kind": text("The worst state of its windows: LOSS, DUPLICATION, CORRUPT, MIXED, ..."),
    "state": text("OPEN, ACCEPTED, REPAIRED, EXPLAINED, or RESOLVED: it healed by itself."),
    "first_window": time("Its earliest window,"),
    "last_window": time("Its latest window,"),
    "opened_at": time("When it was first seen,"),
    "last_change": time("When it changed last,"),
    "closed_at": time("When it was over; 0: it is open,"),
    "windows": number("Windows that were bad at some time."),
    "bad": number("Windows that are bad now."),
    "accepted": number("Windows that were accepted by a person."),
    "explained": number("Windows that turned out to be explained."),
    **_WORST,
    "repaired_by": text("The repair that closed it."),
}
INCIDENT_WINDOW: Final[Fields] = {
    **PLACE,
    "window": time("The start of the window,"),
    "incident": number("The number of its incident."),
    "state": text("The last state that was decided."),
    "accepted": flag("Whether a person has accepted it."),
    **_WORST,
    "worst_state": text("The worst state that it ever had."),
    "opened_at": time("When it was first seen to be bad,"),
    "closed_at": time("Since when it is good or accepted; 0: it is bad,"),
}
MOMENT: Final[Fields] = {
    "at": time("When,"),
    "kind": text("verdict, alert, told, resolved, log, run or repair."),
    "what": text("One word: the state, the rule, the kind of the event, the job."),
    "text": text("A line about it."),
    "row": Field("object", "The row of the store."),
    "window": Field("number", "The window (its start, ms) that it is about, or null.", True),
}
LOG_EVENT: Final[Fields] = {
    "id": number("The number of the event."),
    "cluster": text("Where it happened."),
    "topic": text("To which topic; empty: to none."),
    "partition": number("To which partition; -1: to none."),
    "from_offset": number("The first offset concerned; -1: none."),
    "to_offset": number("The offset behind the last one."),
    "at": time("When it was seen,"),
    "kind": text("truncated, expired, recreated, gap, unclean-election, given-up, bad-event, ..."),
    "count": number("To how many records it happened."),
    "reason": text("What is known of it."),
}
RUN: Final[Fields] = {
    "id": number("The number of the run."),
    "job": text("The job: reconcile, load, ..."),
    "started_at": time("When it began,"),
    "finished_at": time("When it ended; 0: it goes on, or it died,"),
    "from_ms": time("The period that it looked at: from,"),
    "to_ms": time("And up to,"),
    "outcome": text("How it ended."),
    "detail": Field("object", "What it found."),
}
RUN_HOP: Final[Fields] = {
    **PLACE,
    "state": text("The worst state of its windows, as the job found it."),
    **{
        name: Field("number", f"{meaning} Null: the job did not say.", may_lack=True)
        for name, meaning in {
            "windows": "Windows that it judged.",
            "claimed": "Messages that have to be there.",
            "observed": "Those that are there.",
            "missing": "Those that are lost.",
            "duplicated": "Copies beyond the first of each message.",
            "unclaimed": "Messages without a claim.",
            "explained": "Messages whose absence has a stated reason.",
        }.items()
    },
}
LAKE_TABLE: Final[Fields] = {
    "cluster": text("The cluster from which it is loaded."),
    "table": text("The table."),
    "last_load": time("When its newest commit was made,"),
    "server": text("The host that made it."),
}
REPAIR: Final[Fields] = {
    "id": number("The number of the repair."),
    "at": time("When it was done,"),
    **PLACE,
    "window": time("The window of the messages,"),
    "partition": number("The partition that they were sent to."),
    "server": text("The host of the producer."),
    "instance": text("The run of the producer (hex)."),
    "sequences": listed("What was missing, as flat ranges."),
    "copied": number("Messages that were copied."),
    "present": number("Messages that were there already."),
    "outcome": text("repaired, present, partly, failed or refused."),
    "reason": text("Why some were not copied."),
}
DECISION: Final[Fields] = {
    "id": number("The number of the decision."),
    "at": time("When it was made,"),
    "finished_at": time("When what it started was over; 0: it goes on,"),
    "who": text("Who made it."),
    "host": text("Where it was made."),
    "process": text("In which program."),
    "action": text("accept, withdraw, retire, pause, resume or repair."),
    **PLACE,
    "window": time("The first window that it is about; -1: none,"),
    "window_end": time("Where the last one ends; -1: none,"),
    "subject": text("The reporter that was retired."),
    "note": text("Why."),
    "outcome": text("How a repair ended."),
    "detail": Field("object", "Of a repair its counts, of a pause its end."),
}
_COUNTS: Final = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
_SOURCES: Final = ("spark", "collector")
DISAGREEMENT: Final[Fields] = {
    **PLACE,
    "window": time("The window,"),
    **{f"{who}_state": text(f"The state according to {who}.") for who in _SOURCES},
    **{f"{who}_judged_at": time(f"When {who} judged it,") for who in _SOURCES},
    **{
        f"{who}_{name}": number(f"Messages {name} according to {who}.")
        for who in _SOURCES
        for name in _COUNTS
    },
}
