"""Accept a window or take that back, retire a reporter, pause the alerts or end the pause: by the
functions of ``tallymark audit accept``, ``retire`` and ``alerts --pause``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark.trail import Doer
from tallymark_audit.decisions import Decider
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.judged import alerts
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_dashboards.actions.desk import PROCESS
from tallymark_dashboards.actions.forms import (
    LONGEST_NOTE,
    LONGEST_VALUE,
    Form,
    actions_of,
    lead_to,
    page_or,
    posted,
    refuse,
    show_form,
    window_start,
)
from tallymark_dashboards.actions.guard import Refused
from tallymark_dashboards.frame.ask import bounded
from tallymark_dashboards.frame.requests import context_of, links_of, pairs_of, user_of

PAUSES: Final = {"30m": 1_800_000, "1h": 3_600_000, "2h": 7_200_000, "4h": 14_400_000} | {
    "8h": 28_800_000,
    "24h": 86_400_000,
}
CHANGED: Final = Refused(
    409,
    "what this form is about has changed since it was opened, by another decision or by new"
    " verdicts: nothing was changed",
    "Look at what it says now; if you still want it, send it again.",
    again=True,
)
"""Two operators, or one in two tabs, must not overwrite each other's decisions unseen."""
RUNNING: Final = (
    "It reported a moment ago: it is running, and its next report makes it active again."
)
Values = Mapping[str, str]
Make = Callable[[Request, Values], Form]
Do = Callable[[Request, Values], str]
"""Changes the store; the address to go on to. UserError: it cannot be done."""


def router() -> APIRouter:
    """A form and what it does for each action."""
    routes = APIRouter(include_in_schema=False)
    for action, (make, do) in ACTIONS.items():
        path = f"/act/{action}"
        routes.add_api_route(path, _asking(make), methods=["GET"], name=f"ask to {action}")
        routes.add_api_route(path, _doing(action, make, do), methods=["POST"], name=action)
    return routes


def doer_of(request: Request) -> Doer:
    """The user of the request, for the store and the trail."""
    client = request.client
    return Doer(f"User:{user_of(request).name}", client.host if client else "?", PROCESS)


def _asking(make: Make) -> Callable[[Request], Response]:
    def ask(request: Request) -> Response:
        values, _ = bounded(pairs_of(request))
        try:
            return show_form(request, make(request, values))
        except UserError as error:
            return refuse(request, Refused(404, error.what, error.do))

    return ask


def _doing(action: str, make: Make, do: Do) -> Callable[[Request], Awaitable[Response]]:
    async def act(request: Request) -> Response:
        values, refused = await posted(request, action)
        if refused is not None and not refused.again:
            return refuse(request, refused)
        return await run_in_threadpool(_carry_out, request, values, refused, make, do)

    return act


def _carry_out(
    request: Request, values: Values, refused: Refused | None, make: Make, do: Do
) -> Response:
    try:
        if refused is not None:
            return show_form(request, make(request, values), refused)
        with actions_of(request).deciding:
            form = make(request, values)
            if values.get("seen") != form.seen:
                return show_form(request, form, CHANGED)
            return lead_to(do(request, values))
    except UserError as error:
        return refuse(request, Refused(409, error.what, error.do))


def _decider(request: Request) -> Decider:
    context = context_of(request)
    return Decider(context.store, context.deployment, doer_of(request))


def _accept_form(request: Request, values: Values) -> Form:
    return _window_form(
        request,
        values,
        action="accept",
        title="Accept a window as it is",
        said=(
            "The watermark passes this window though it is not good. What is wrong stays recorded,"
            " with your name. The acceptance holds until more messages are found to be missing,"
            " duplicated or unclaimed."
        ),
        submit="Accept this window",
        words="tallymark audit accept",
    )


def _withdraw_form(request: Request, values: Values) -> Form:
    return _window_form(
        request,
        values,
        action="withdraw",
        title="Take an acceptance back",
        said="The watermark waits for this window again until it is good.",
        submit="Take it back",
        words="tallymark audit accept --undo",
    )


def _window_form(
    request: Request,
    values: Values,
    *,
    action: str,
    title: str,
    said: str,
    submit: str,
    words: str,
) -> Form:
    """A form about one window; ``words``: the command that does the same, without the window."""
    row, facts = _window(request, values)
    taken_back = action == "withdraw" and not row["accepted_by"]
    hidden = {name: str(row[name]) for name in ("edge", "topic", "window")}
    return Form(
        action=action,
        title=title,
        said=said,
        facts=facts,
        hidden=hidden,
        submit=submit,
        command=context_of(request).command(words, row["edge"], row["topic"], utc(row["window"])),
        back=page_or(links_of(request), "window", **hidden),
        warning="It is not accepted now: there is nothing to take back." if taken_back else "",
        seen=f"{row['source']} {row['revision']}",
    )


def _accept(request: Request, values: Values) -> str:
    return _accepted(request, values, user_of(request).name)


def _withdraw(request: Request, values: Values) -> str:
    return _accepted(request, values, "")


def _accepted(request: Request, values: Values, name: str) -> str:
    edge, topic, moment = _named(values)
    window, _ = _decider(request).accept(edge, topic, moment, name, _note(values))
    return page_or(links_of(request), "window", edge=edge, topic=topic, window=window)


def _retire_form(request: Request, values: Values) -> Form:
    reporter = values.get("reporter", "")[:LONGEST_VALUE]
    context = context_of(request)
    with context.store.read() as connection:
        rows = queries.reporters_named(connection, reporter)
    if not rows:
        raise UserError(f"no reporter is called {reporter!r}", "See the reporters on the overview.")
    heard = max(row["last_heard"] for row in rows)
    alive = now_ms() - heard < context.deployment.audit.silence_ms
    facts = [("reporter", reporter)]
    for row in rows:
        who = " ".join(filter(None, (row["server"], row["application"], row["consumer_group"])))
        facts.append(
            (f"on {row['cluster']}", f"{row['kind']} {who}, last report {utc(row['last_heard'])}")
        )
        if row["retired_at"]:
            facts.append((f"retired on {row['cluster']}", utc(row["retired_at"])))
    return Form(
        action="retire",
        title="Retire a reporter",
        said=(
            "Windows no longer wait for this reporter. Messages that a producer has sent since its"
            " last report, and that are in no journal, stay unclaimed; messages that a mirror or a"
            " group has not passed on are missing. If it reports again, it is active again."
        ),
        facts=facts,
        hidden={"reporter": reporter},
        submit="Retire this reporter",
        command=context.command("tallymark audit retire", reporter),
        back=page_or(links_of(request), "overview"),
        warning=RUNNING if alive else "",
        seen=" ".join(f"{row['cluster']}:{row['retired_at']}" for row in rows),
    )


def _retire(request: Request, values: Values) -> str:
    _decider(request).retire(values.get("reporter", "")[:LONGEST_VALUE], _note(values))
    return page_or(links_of(request), "runs", range="24h", name="retire")


def _pause_form(request: Request, values: Values) -> Form:
    until = _paused_until(request)
    return Form(
        action="pause",
        title="Pause the alerts",
        said=(
            "During a pause alerts are listed and counted, and none is sent. Those that still hold"
            " at its end are sent then."
        ),
        facts=[("paused now", f"until {utc(until)}" if until else "no")],
        hidden={},
        submit="Pause",
        command=context_of(request).command("tallymark audit alerts", pause="2h"),
        back=page_or(links_of(request), "alerts"),
        choices=("For", "for", tuple(PAUSES)),
        warning="The pause that you choose replaces this one." if until else "",
        seen=str(until),
    )


def _pause(request: Request, values: Values) -> str:
    chosen = values.get("for", "")
    if chosen not in PAUSES:
        raise UserError(f"{chosen[:40]!r} is no time", f"Choose one of {', '.join(PAUSES)}.")
    _decider(request).pause(PAUSES[chosen], _note(values))
    return page_or(links_of(request), "alerts")


def _resume_form(request: Request, values: Values) -> Form:
    until = _paused_until(request)
    return Form(
        action="resume",
        title="End the pause of the alerts",
        said="Alerts that still hold are sent at once.",
        facts=[("paused now", f"until {utc(until)}" if until else "no")],
        hidden={},
        submit="End the pause",
        command=context_of(request).command("tallymark audit alerts --resume"),
        back=page_or(links_of(request), "alerts"),
        warning="" if until else "Alerts are not paused now.",
        seen=str(until),
    )


def _resume(request: Request, values: Values) -> str:
    if not _paused_until(request):
        raise UserError("alerts are not paused: there is no pause to end", "See the alerts.")
    _decider(request).pause(0, _note(values))
    return page_or(links_of(request), "alerts")


def _paused_until(request: Request) -> int:
    """Until when (ms) alerts are paused; 0: they are not."""
    with context_of(request).store.read() as connection:
        until = alerts.paused_until(connection)
    return until if until > now_ms() else 0


def _named(values: Values) -> tuple[str, str, int]:
    edge, topic = (values.get(name, "")[:LONGEST_VALUE] for name in ("edge", "topic"))
    return edge, topic, window_start(values.get("window", ""))


def _window(request: Request, values: Values) -> tuple[Mapping[str, Any], list[tuple[str, str]]]:
    """The verdict in force of the window that is asked for, and what to show of it."""
    edge, topic, start = _named(values)
    with context_of(request).store.read() as connection:
        rows = queries.windows(connection, edge, topic, start, start + 1, limit=1)
    if not rows:
        raise UserError(
            f"there is no verdict of {topic} on {edge} for the window {utc(start)}",
            "Open the window's page, and accept it there.",
        )
    row = shown_verdict(rows[0])
    counts = ("claimed", "observed", "pending", "missing", "duplicates", "unclaimed", "explained")
    told = ", ".join(f"{row[name]:,} {name}" for name in counts if row[name])
    facts = [
        ("hop", edge),
        ("topic", topic),
        ("window", utc(start)),
        ("state", str(row["state"])),
        ("messages", told or "none"),
    ]
    if row["accepted_by"]:
        facts.append(("accepted by", row["accepted_by"]))
    return row, facts


def _note(values: Values) -> str:
    return " ".join(values.get("note", "").split())[:LONGEST_NOTE]


ACTIONS: Final[dict[str, tuple[Make, Do]]] = {
    "accept": (_accept_form, _accept),
    "withdraw": (_withdraw_form, _withdraw),
    "retire": (_retire_form, _retire),
    "pause": (_pause_form, _pause),
    "resume": (_resume_form, _resume),
}
"""What is shown, and what is done."""
