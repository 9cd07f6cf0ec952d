"""Version 1 of the schema of monitoring events, kept to read what older programs wrote. It never
changes: its fingerprint is in their events."""

from __future__ import annotations

from typing import Any, Final


def _long(name: str, doc: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "doc": doc}


def _ranges(name: str, doc: str) -> dict[str, Any]:
    return {"name": name, "type": {"type": "array", "items": "long"}, "doc": doc}


CELL: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Cell",
    "fields": [
        {"name": "topic", "type": "string", "doc": "the topic it was sent to"},
        _long("partition", "the partition it was sent to"),
        _long("window_start", "ms UTC"),
        _long("part", "incarnation of the cell at its reporter; parts add up"),
        _long("revision", "per part the highest counts"),
        _long("count", "records accepted"),
        _long("bytes", "keys and values accepted, before compression"),
        _ranges("accepted", "sequences handed to the network"),
        _ranges("acknowledged", "sequences the broker confirmed"),
        _ranges("failed", "sequences refused for good"),
        _ranges("in_doubt", "sequences whose fate is not known and never will be"),
        _long("min_timestamp", "ms UTC, -1 without records"),
        _long("max_timestamp", "ms UTC, -1 without records"),
        _long("skewed", "records stamped implausibly far from when they were sent"),
    ],
}

GAP: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Gap",
    "fields": [
        {"name": "topic", "type": "string"},
        _long("partition", "upstream partition"),
        _long("first_offset", "first upstream offset that could not be copied"),
        _long("last_offset", "the last one, included"),
        {"name": "reason", "type": "string", "doc": "compaction, control, truncation, ..."},
        _long("at", "when it was noticed, ms UTC"),
    ],
}

SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "AuditEvent",
    "namespace": "tallymark.audit",
    "doc": "One report of one reporter: cumulative, revisioned, numbered.",
    "fields": [
        {"name": "version", "type": "int"},
        {"name": "kind", "type": "string", "doc": "producer, mirror, consumer or lake"},
        {"name": "reporter", "type": "string", "doc": "one run of whoever counts"},
        {"name": "tier", "type": "string"},
        {"name": "server", "type": "string"},
        {"name": "application", "type": "string", "doc": "the client id"},
        {"name": "instance", "type": "string", "doc": "16 hex digits, as in the stamps"},
        _long("event_number", "0, 1, 2 ... per reporter"),
        _long("covers_from", "changes first published from that event on are repeated here"),
        _long("group", "how many events, ending here, make up the report"),
        _long("started_at", "when the run began, ms UTC"),
        _long("emitted_at", "ms UTC"),
        _long("window_ms", "the length of its windows"),
        _long("complete_through", "claims of records stamped before it are published, ms UTC"),
        {"name": "closed", "type": "boolean", "doc": "the last report of the run"},
        {"name": "acks", "type": "int", "doc": "the producer's: -1 all, 0 none, 1 leader"},
        {"name": "backfill", "type": "boolean", "doc": "old data: no skew rule"},
        {"name": "cells", "type": {"type": "array", "items": CELL}},
        {"name": "gaps", "type": {"type": "array", "items": GAP}},
    ],
}
