"""Messages of one partition. The one page that asks a broker while it is rendered, bounded in
messages, bytes and seconds (:mod:`tallymark_dashboards.snapshots.peeks`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tallymark.client.producing.stamps import MALFORMED, STAMP_HEADER, Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark.errors import TallymarkError
from tallymark.serialization.errors import RegistryError, SerializationError
from tallymark.serialization.frame import KEY_HEADER, MAGIC, VALUE_HEADER, schema_before
from tallymark.serialization.serializers import AvroDecoder
from tallymark_dashboards.frame.ask import LEFT_OUT, Ask
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.snapshots.peeks import Found, Wanted
from tallymark_dashboards.snapshots.shapes import ClusterState
from tallymark_dashboards.view.clusters.decoded import Decode, Shown, plain, shown
from tallymark_dashboards.view.clusters.masks import Masks

COUNTS: Final = (20, 50, 100)
TOPICS: Final = 50
HEADERS: Final = 50
DECODING_S: Final = 3.0
"""For all messages of a page; after that the rest are shown as they are."""
MAX_OFFSET: Final = 2**62
NEWEST: Final = "the newest messages are shown"
CHARACTERS: Final = 100_000
"""Of all values of a page."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as it is shown. ``stamp`` is None without one; ``window`` is where it is counted
    (ms)."""

    message: Message
    key: str
    value: Shown
    stamp: Stamp | None
    malformed: bool
    headers: tuple[tuple[str, str], ...]
    more_headers: int
    window: int


@page("/messages", name="messages", nav="Messages", ranged=False, asks=True, needs_store=False)
def messages(ask: Ask) -> Page:
    """Peek at messages by offset or time; the last ones otherwise."""
    states = ask.context.snapshots.clusters
    names = [one.name for one in states]
    cluster = ask.text("cluster") or (names[0] if names else "")
    state = ask.context.snapshots.cluster(cluster)
    if state is None:
        near = [Near(one, "messages", {"cluster": one}) for one in nearest(cluster, names) or names]
        return missing("cluster", cluster, near)
    topic = ask.text("topic")
    values: dict[str, Any] = {"clusters": names, "cluster": cluster, "topic": topic}
    values |= {"counts": COUNTS, "masked": ask.context.deployment.dashboards.masked_fields}
    if not topic:
        return Page("Messages", "pages/messages.html", {**values, **_choice(ask, state)})
    wanted = _wanted(ask, cluster, topic)
    found = ask.context.peeks.look(wanted)
    if found.partitions is not None and wanted.partition not in found.partitions:
        return _not_there(state, wanted, found)
    values |= _values(ask, wanted, found)
    title = f"{topic}-{wanted.partition} on {cluster}"
    return Page(title, "pages/messages.html", values, "warn" if found.start is None else "")


def _wanted(ask: Ask, cluster: str, topic: str) -> Wanted:
    partition = ask.number("partition", 0, 0, 2**31 - 1)
    count = ask.number("count", COUNTS[0], 1, COUNTS[-1])
    offset = ask.number_if("offset", 0, MAX_OFFSET, NEWEST)
    at = ask.moment("time", NEWEST if offset is None else LEFT_OUT)
    if offset is not None and at is not None:
        ask.notes.append("an offset and a time are asked for: the offset is taken")
        at = None
    return Wanted(cluster, topic, partition, offset, at, count)


def _choice(ask: Ask, state: ClusterState) -> dict[str, Any]:
    """Topics to choose from, as the background task found them."""
    find = ask.text("q").lower()
    known = [one for one in state.topics.value.values() if find in one.name.lower()]
    known.sort(key=lambda one: (one.internal, one.name))
    return {
        "topics": known[:TOPICS],
        "more_topics": max(0, len(known) - TOPICS),
        "q": ask.text("q"),
        "known": bool(state.topics.at),
        "error": state.topics.error,
    }


def _not_there(state: ClusterState, wanted: Wanted, found: Found) -> Page:
    place = {"cluster": wanted.cluster, "topic": wanted.topic}
    if found.partitions:
        near = [
            Near(f"{wanted.topic}-{one}", "messages", {**place, "partition": one})
            for one in found.partitions[:20]
        ]
        many = len(found.partitions)
        hint = f"{wanted.topic} has {many:,} partitions, 0 to {max(found.partitions)}."
        return missing("partition", f"{wanted.topic}-{wanted.partition}", near, hint)
    names = nearest(wanted.topic, state.topics.value)
    near = [Near(one, "messages", {"cluster": wanted.cluster, "topic": one}) for one in names]
    return missing("topic", wanted.topic, near, f"{wanted.cluster} has no topic of this name.")


def message_rows(context: Context, wanted: Wanted, found: Found) -> list[MessageRow]:
    """The messages as they are shown: decoded where that is possible, masked as the settings
    say."""
    masks = Masks.of(context.deployment.dashboards.masked_fields, wanted.topic)
    decoding = _Decoding(context.peeks.decoder)
    window_ms = context.deployment.audit.window_ms
    most = max(1_000, CHARACTERS // max(1, len(found.messages)))
    return [_row(one, decoding, masks, window_ms, most) for one in found.messages]


def _values(ask: Ask, wanted: Wanted, found: Found) -> dict[str, Any]:
    first = found.messages[0].offset if found.messages else found.first
    last = found.messages[-1].offset if found.messages else found.first
    start, end = found.start, found.end
    older = newer = None
    if start is not None and end is not None and start < end:
        older = max(start, min(first, end) - wanted.count) if first > start else None
        newer = max(last + 1, start) if last + 1 < end else None
    return {
        "rows": message_rows(ask.context, wanted, found),
        "partition": wanted.partition,
        "partitions": found.partitions or (),
        "offset": wanted.offset,
        "time": wanted.time,
        "count": wanted.count,
        "found": found,
        "older": older,
        "newer": newer,
        "masks": bool(Masks.of(ask.context.deployment.dashboards.masked_fields, wanted.topic)),
    }


def _row(
    message: Message, decoding: _Decoding, masks: Masks, window_ms: int, most: int
) -> MessageRow:
    stamp = stamp_of(message.headers)
    rest = [(name, data) for name, data in message.headers if name != STAMP_HEADER]
    key = message.key
    decode_key = decoding.of(message, is_key=True)
    key_shown = shown(key, decode_key, masks) if key and decode_key else None
    return MessageRow(
        message,
        key_shown.text if key_shown and key_shown.kind == "avro" else plain(key),
        shown(message.value, decoding.of(message, is_key=False), masks, most),
        stamp if isinstance(stamp, Stamp) else None,
        stamp == MALFORMED,
        tuple((name, plain(data)) for name, data in rest[:HEADERS]),
        max(0, len(rest) - HEADERS),
        message.timestamp - message.timestamp % window_ms,
    )


class _Decoding:
    """Decodes with the schemas of the registry, as long as it answers in time."""

    def __init__(self, decoder: Callable[[], AvroDecoder]) -> None:
        self._decoder = decoder
        self._until = time.monotonic() + DECODING_S
        self._failed = ""

    def of(self, message: Message, *, is_key: bool) -> Decode | None:
        """What decodes the message's key or value; None where it does not begin as Avro messages
        do, and has no header that names a schema."""
        data = message.key if is_key else message.value
        header = KEY_HEADER if is_key else VALUE_HEADER
        named = any(name == header for name, _ in message.headers)
        framed = data is not None and len(data) > 5 and data[0] == MAGIC
        if not named and not framed:
            return None

        def decode(raw: bytes) -> tuple[Any, str]:
            if self._failed or time.monotonic() > self._until:
                raise ValueError(self._failed or "the schema registry took too long")
            try:
                value = self._decoder().decode(raw, message.headers if named else ())
            except (SerializationError, RegistryError) as error:
                raise ValueError(f"not decoded: {error}") from None
            except TallymarkError as error:
                self._failed = f"not decoded: {error}"
                raise ValueError(self._failed) from None
            return value, "" if named else f"schema {schema_before(raw)}"

        return decode
