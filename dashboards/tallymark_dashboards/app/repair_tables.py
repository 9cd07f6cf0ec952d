"""The table of a repair that an operator has begun on a page, as CSV and JSON: what is missing, and
what becomes of it. From the memory of this process; nothing is looked for or copied by it."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import PLACE, listed, number, text, time
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Problem
from tallymark_dashboards.actions.desk import Asked
from tallymark_dashboards.actions.forms import actions_of, refusal_for
from tallymark_dashboards.actions.repair import ItemRow, item_rows
from tallymark_dashboards.app.table_fields import Row, table_router

router = table_router("repairs")
PLAN: Final = Listing(
    "repair_plan",
    {
        **PLACE,
        "window": time("The window of the messages,"),
        "partition": number("The partition that they were sent to."),
        "server": text("The host that sent them; empty: they have no stamp."),
        "instance": text("The run that sent them (hex)."),
        "count": number("How many are missing."),
        "sequences": listed("Which, as flat ranges."),
        "said": text("What upstream still has, or what was done."),
    },
    {"window": int, "partition": int, "server": str, "instance": str},
)
Start = Annotated[
    params.Moment, Query(alias="from", description="Windows that start then or later.")
]
End = Annotated[params.Moment, Query(alias="to", description="Windows that start before.")]


@lists.route(router, "/repair-plan", PLAN)
def repair_plan(
    request: Request,
    asked: params.Paged,
    edge: Annotated[params.Name, Query(description="The edge, as in dc1-to-aggregate.")],
    topic: Annotated[params.Name, Query(description="The topic.")],
    start: Start,
    end: End,
) -> Response:
    """The repair of these windows that is shown on its page, for users that may repair."""
    refused = refusal_for(request)
    if refused is not None:
        raise Problem(refused.status, refused.said, refused.hint)
    job = actions_of(request).desk.job(Asked(edge, topic, start, end))
    if job is None or job.plan is None:
        do = "open the repair on the page of a window, and wait for the plan"
        raise Problem(404, "no plan of these windows is known here", do)
    return lists.answer_rows(request, PLAN, [_row(one) for one in item_rows(job)], asked)


def _row(one: ItemRow) -> Row:
    key = one.item.key
    return {
        "edge": one.item.edge,
        "topic": key.topic,
        "window": key.window,
        "partition": key.partition,
        "server": key.server,
        "instance": key.instance,
        "count": one.item.count,
        "sequences": one.item.missing.to_list(),
        "said": one.said,
    }
