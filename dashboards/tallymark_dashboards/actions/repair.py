"""The page of a repair: what would be copied, the button that does it, how far it is, the result.
While a look or a repair is running the page loads itself again every two seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from tallymark.errors import UserError
from tallymark_audit.model.time_format import utc
from tallymark_dashboards.actions.decide import doer_of
from tallymark_dashboards.actions.desk import Asked, Job, Phase
from tallymark_dashboards.actions.forms import (
    LONGEST_VALUE,
    actions_of,
    as_sent,
    lead_to,
    page_or,
    posted,
    refusal_for,
    refuse,
    show,
    window_start,
)
from tallymark_dashboards.actions.guard import Refused
from tallymark_dashboards.frame.ask import bounded
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.requests import context_of, links_of, pairs_of, user_of

if TYPE_CHECKING:
    from tallymark_audit.repair.apply import ItemResult
    from tallymark_audit.repair.items import RepairItem

ACTION: Final = "repair"
PATH: Final = "/act/repair"
EVERY_S: Final = 2
MOST_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item of the plan, and what would become or became of its messages."""

    item: RepairItem
    said: str
    tone: str = ""


def router() -> APIRouter:
    """The page, and what its button does."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route(PATH, show_repair, methods=["GET"], name="ask to repair")
    routes.add_api_route(PATH, _carrying_out(), methods=["POST"], name="repair")
    return routes


def show_repair(request: Request) -> Response:
    """The plan, the progress or the result. Looking at upstream begins here, in the background, for
    users that may repair."""
    values, _ = bounded(pairs_of(request))
    try:
        asked = asked_of(values, context_of(request).deployment.audit.window_ms)
    except UserError as error:
        return refuse(request, Refused(404, error.what, error.do))
    return _page(request, asked, again=values.get("again") == "1")


def asked_of(values: Mapping[str, str], window_ms: int) -> Asked:
    """Which windows: ``window``, or those ``from`` one ``to`` another (excluded). UserError: the
    times cannot be read."""
    edge, topic = (values.get(name, "")[:LONGEST_VALUE] for name in ("edge", "topic"))
    if values.get("window"):
        start = window_start(values["window"])
        return Asked(edge, topic, start, start + window_ms)
    start, end = (window_start(values.get(name, "")) for name in ("from", "to"))
    if end <= start:
        raise UserError("these windows end before they begin", "Open the repair from a window.")
    return Asked(edge, topic, start, end)


def _carrying_out() -> Callable[[Request], Awaitable[Response]]:
    async def act(request: Request) -> Response:
        values, refused = await posted(request, ACTION)
        if refused is not None and not refused.again:
            return refuse(request, refused)
        return await run_in_threadpool(_begin, request, values, refused)

    return act


def _begin(request: Request, values: Mapping[str, str], refused: Refused | None) -> Response:
    try:
        asked = asked_of(values, context_of(request).deployment.audit.window_ms)
        if refused is not None:
            return _page(request, asked, refused=refused)
        actions_of(request).desk.repair(asked, values.get("digest", ""), doer_of(request))
    except UserError as error:
        return refuse(request, Refused(409, error.what, error.do))
    return lead_to(links_of(request).link(PATH, **_query(asked)))


def _page(
    request: Request, asked: Asked, again: bool = False, refused: Refused | None = None
) -> Response:
    context, links, unable = context_of(request), links_of(request), refusal_for(request)
    job, waits_for = _job(request, asked, again) if unable is None else (None, None)
    refresh = EVERY_S if (job is not None and job.is_busy) or waits_for is not None else 0
    here = {"edge": asked.edge, "topic": asked.topic}
    times = {"from_": utc(asked.start), "to": utc(asked.end)}
    rows = item_rows(job)
    values: dict[str, Any] = {
        "asked": asked,
        "job": job,
        "rows": rows[:MOST_ROWS],
        "left_out": max(0, len(rows) - MOST_ROWS),
        "refused": refused or unable,
        "waits_for": waits_for,
        "outcome": _outcome(job),
        "copied": sum(one.copied.size for one in job.results) if job is not None else 0,
        "hidden": _hidden(asked, job),
        "window_page": page_or(links, "window", **here, window=asked.start),
        "again": links.link(PATH, **_query(asked), again=1),
        "asked_for": _query(asked),
        "commands": (
            context.command("tallymark audit repair", **here, **times),
            context.command("tallymark audit repair --apply", **here, **times),
        ),
    }
    status = 200 if refused is None else refused.status
    title = f"Repair {asked.topic} on {asked.edge}"
    page = Page(title, "pages/act_repair.html", values, status=status)
    return show(request, page, ACTION, refresh)


def _job(request: Request, asked: Asked, again: bool) -> tuple[Job | None, Job | None]:
    """The job to show, and the one of other windows that has to end before."""
    desk = actions_of(request).desk
    job = desk.job(asked)
    if job is not None and (job.is_busy or not again):
        return job, None
    begun = desk.look(asked, user_of(request).name)
    return begun, desk.busy() if begun is None else None


def _hidden(asked: Asked, job: Job | None) -> list[tuple[str, object]]:
    fields = {
        "edge": asked.edge,
        "topic": asked.topic,
        "from": str(asked.start),
        "to": str(asked.end),
        "digest": job.digest if job is not None else "",
    }
    return [(name, as_sent(value)) for name, value in fields.items()]


def item_rows(job: Job | None) -> list[ItemRow]:
    """What the plan says of each item, then what became of it."""
    if job is None or job.plan is None:
        return []
    done = {id(one.item): one for one in job.results}
    seen = {id(one.item): one for one in job.checks}
    rows: list[ItemRow] = []
    for item in job.plan.items:
        result, check = done.get(id(item)), seen.get(id(item))
        if result is not None:
            said, tone = _became(result)
        elif item.refused:
            said, tone = f"not possible: {item.refused}", "warn"
        elif check is not None:
            said = check.promise
            tone = "" if check.there else "warn"
        else:
            said, tone = "not yet", ""
        rows.append(ItemRow(item, said, tone))
    return rows


def _outcome(job: Job | None) -> str:
    from tallymark_audit.repair.repair_run import outcome_of  # with all clients

    return outcome_of(job.results) if job is not None and job.phase is Phase.DONE else ""


def _became(result: ItemResult) -> tuple[str, str]:
    told = f"{result.outcome}: {result.copied.size:,} copied, {result.present.size:,} there"
    said = f"{told}; {result.reason}" if result.reason else told
    return said, "" if result.outcome in ("repaired", "present") else "bad"


def _query(asked: Asked) -> dict[str, object]:
    """As it stands in an address."""
    return {"edge": asked.edge, "topic": asked.topic, "from_": asked.start, "to": asked.end}
