"""Messages of one partition, as CSV and JSON: what the page shows of them, with the same bounds and
the same masks. As the page it asks a broker (:mod:`tallymark_dashboards.snapshots.peeks`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import Field, Fields, listed, number, text, time
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.problems import Problem, away
from tallymark_dashboards.app.table_fields import PREFIX, Row, known, table_router
from tallymark_dashboards.frame.requests import context_of
from tallymark_dashboards.pages.messages import COUNTS, MAX_OFFSET, MessageRow, message_rows
from tallymark_dashboards.snapshots.peeks import Found, Wanted

router = table_router("messages")
MESSAGES: Final = Listing(
    "messages",
    {
        "cluster": text("The cluster."),
        "topic": text("The topic."),
        "partition": number("The partition."),
        "offset": number("The offset of the message."),
        "timestamp": time("Its time,"),
        "key": Field("text", "Its key; null: it has none.", may_lack=True),
        "kind": text("What the value is: null, empty, avro, json, text, hex or hidden."),
        "value": text("The value as the page shows it: decoded, masked, cut."),
        "size": number("The bytes of the value."),
        "note": text("What there is to say of the value: its schema, what was cut or masked."),
        "stamp": text("stamped, malformed or none."),
        "server": text("The host that sent it, by its stamp."),
        "instance": text("The run that sent it (hex)."),
        "sequence": known("Its sequence in this run and partition."),
        "headers": listed("Other headers: name and value."),
    },
    {"offset": int},
)
LOG: Final[Fields] = {
    "log_start": known("The first offset of the log."),
    "log_end": known("The offset after the last one."),
    "said": text("Why there are no messages; empty: there are."),
}
Offset = Annotated[
    int | None, Query(ge=0, le=MAX_OFFSET, description="From this offset on; else see time.")
]
Time = Annotated[
    params.Moment | None, Query(description="From this time on; else the newest ones.")
]


@lists.route(router, "/messages", MESSAGES, LOG)
def messages(
    request: Request,
    asked: params.Paged,
    cluster: Annotated[params.Name, Query(description="The cluster.")],
    topic: Annotated[params.Name, Query(description="The topic.")],
    partition: Annotated[int, Query(ge=0, le=2**31 - 1, description="The partition.")] = 0,
    offset: Offset = None,
    time: Time = None,
) -> Response:
    """Messages of a partition, 20 where no limit is given, 100 and 1 MB at most; nothing is
    consumed. As CSV the header ``Link`` names the next ones."""
    if context_of(request).snapshots.cluster(cluster) is None:
        raise Problem(404, f"there is no cluster {cluster}", f"list them: {PREFIX}/clusters")
    count = min(asked.limit or COUNTS[0], COUNTS[-1])
    looks: list[Found] = []

    def read(_: Any, after: Any, most: int) -> Page:
        start = after[0] + 1 if after else offset
        wanted = Wanted(
            cluster, topic, partition, start, None if start is not None else time, count=most
        )
        found = _look(request, wanted)
        looks.append(found)
        rows = [_row(wanted, one) for one in message_rows(context_of(request), wanted, found)]
        last = rows[-1]["offset"] if rows else None
        more = last is not None and found.end is not None and last + 1 < found.end
        return Page(rows, [last] if more else None)

    def log(_: Any) -> Mapping[str, Any]:
        found = looks[-1]
        return {"log_start": found.start, "log_end": found.end, "said": found.error}

    bounded = params.Asked(count, asked.cursor)
    return lists.answer_page(request, MESSAGES, read, bounded, log, source=nullcontext)


def _look(request: Request, wanted: Wanted) -> Found:
    found = context_of(request).peeks.look(wanted)
    if found.partitions is not None and wanted.partition not in found.partitions:
        raise Problem(404, found.error, f"see the topics: {PREFIX}/cluster-topics")
    if found.start is None:
        raise away(found.error)
    return found


def _row(wanted: Wanted, row: MessageRow) -> Row:
    one, stamp = row.message, row.stamp
    return {
        "cluster": wanted.cluster,
        "topic": wanted.topic,
        "partition": wanted.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "key": None if one.key is None else row.key,
        "kind": row.value.kind,
        "value": row.value.text,
        "size": row.value.size,
        "note": row.value.note,
        "stamp": "stamped" if stamp else "malformed" if row.malformed else "none",
        "server": stamp.server if stamp else "",
        "instance": stamp.instance.hex() if stamp else "",
        "sequence": stamp.sequence if stamp else None,
        "headers": [list(one) for one in row.headers],
    }
