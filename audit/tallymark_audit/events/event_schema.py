"""The Avro schema of monitoring events, version 4. It ships with the code: no registry is asked.

A later version gets its own schema and fingerprint; readers keep the old ones
(:mod:`tallymark_audit.events.event_schema_v1`, :mod:`~tallymark_audit.events.event_schema_v2`,
:mod:`~tallymark_audit.events.event_schema_v3`).
"""

from __future__ import annotations

from typing import Any, Final

MARKER: Final = b"\xc3\x01"
"""The first two bytes of Avro's single-object encoding."""

Schema = dict[str, Any]


def _long(name: str, doc: str) -> Schema:
    return {"name": name, "type": "long", "doc": doc}


def _string(name: str, doc: str) -> Schema:
    return {"name": name, "type": "string", "doc": doc}


def _flag(name: str, doc: str) -> Schema:
    return {"name": name, "type": "boolean", "doc": doc}


def _longs(name: str, doc: str) -> Schema:
    return {"name": name, "type": {"type": "array", "items": "long"}, "doc": doc}


def _ranges(name: str, doc: str) -> Schema:
    return _longs(name, f"{doc}; flat: first, last, first, last, ...")


def _list(name: str, items: Schema) -> Schema:
    return {"name": name, "type": {"type": "array", "items": items}}


SUMMARY: Final[Schema] = {
    "type": "record",
    "name": "Summary",
    "doc": "what is left of a cell with more ranges than may be kept",
    "fields": [
        _long("accepted", "records"),
        _long("acknowledged", "records"),
        _long("failed", "records"),
        _long("in_doubt", "records"),
        _long("fingerprint", "of the acknowledged sequences: the sum of their hashes, 64 bits"),
    ],
}

BLOCK: Final[Schema] = {
    "type": "record",
    "name": "Block",
    "doc": "what 1,024 sequences hold: block 0 is 0 to 1023",
    "fields": [
        _long("block", "its number"),
        _long("records", "how many of it this cell holds"),
        _long("hash", "the sum of the hashes of sequence, key and value, 64 bits"),
    ],
}

CELL: Final[Schema] = {
    "type": "record",
    "name": "Cell",
    "fields": [
        _string("topic", "the topic it was sent to"),
        _long("partition", "the partition it was sent to"),
        _long("window_start", "ms UTC"),
        _string("server", "who sent it, if not the reporter"),
        _string("instance", "which run of it, if not the reporter's"),
        _long("part", "incarnation of the cell at its reporter; parts add up"),
        _long("revision", "per part the highest counts"),
        _long("count", "records accepted"),
        _long("bytes", "keys and values accepted, before compression"),
        _ranges("accepted", "sequences handed to the network; a consumer: processed"),
        _ranges("acknowledged", "sequences the broker confirmed; a consumer: processed"),
        _ranges("failed", "sequences refused for good"),
        _ranges("in_doubt", "sequences whose fate is not known and never will be"),
        _ranges("aborted", "sequences of transactions that were aborted"),
        _ranges("filtered", "sequences left out on purpose"),
        _ranges("expired", "sequences that retention took before they could be passed on"),
        _long("duplicates", "records beyond the first of each sequence"),
        _list("again", {"type": "array", "items": "long"}),
        {"name": "summary", "type": ["null", SUMMARY], "doc": "in place of all ranges"},
        _list("blocks", BLOCK),
        _longs("latency", "a sketch of ms from stamp to acknowledgement; flat: bucket, count, ..."),
        _long("min_timestamp", "ms UTC, -1 without records"),
        _long("max_timestamp", "ms UTC, -1 without records"),
        _long("skewed", "records stamped implausibly far from when they were sent"),
        _long("unstamped", "records without a stamp; they have no sequences"),
        _long("malformed", "records whose stamp cannot be read"),
    ],
}

GAP: Final[Schema] = {
    "type": "record",
    "name": "Gap",
    "fields": [
        _string("topic", "upstream"),
        _long("partition", "upstream"),
        _long("first_offset", "first upstream offset that could not be copied"),
        _long("last_offset", "the last one, included"),
        _string("reason", "compaction, control, aborted, truncation, retention, recreated, ..."),
        _long("at", "when it was noticed, ms UTC"),
    ],
}

COPIED: Final[Schema] = {
    "type": "record",
    "name": "Copied",
    "doc": "how far a mirror has copied a partition, all told",
    "fields": [
        _string("topic", "upstream"),
        _long("partition", "upstream"),
        _string("target_topic", "downstream"),
        _string("topic_id", "upstream, 32 hex digits, or nothing"),
        _long("through_offset", "every upstream offset below it is downstream or in a gap"),
        _long("records", "copied since the reporter began"),
    ],
}

CHECKSUM: Final[Schema] = {
    "name": "checksum",
    "type": {"type": "fixed", "name": "Crc32c", "size": 4},
    "doc": "CRC-32C of the whole value up to here, little endian; the last field",
}

SCHEMA: Final[Schema] = {
    "type": "record",
    "name": "AuditEvent",
    "namespace": "tallymark.audit",
    "doc": "One report of one reporter: cumulative, revisioned, numbered.",
    "fields": [
        {"name": "version", "type": "int"},
        _string("kind", "producer, mirror, consumer or lake"),
        _string("reporter", "one run of whoever counts"),
        _string("tier", "the tier it counts in"),
        _string("server", "the host"),
        _string("application", "the client id"),
        _string("instance", "16 hex digits, as in the stamps"),
        _string("consumer_group", "of a consumer, else nothing"),
        _long("event_number", "0, 1, 2 ... per reporter"),
        _long("covers_from", "changes first published from that event on are repeated here"),
        _long("group", "how many events, ending here, make up the report"),
        _long("started_at", "when the run began, ms UTC"),
        _long("emitted_at", "ms UTC"),
        _long("window_ms", "the length of its windows"),
        _long("complete_through", "claims of records stamped before it are published, ms UTC"),
        _flag("closed", "the last report of the run"),
        {"name": "acks", "type": "int", "doc": "the producer's: -1 all, 0 none, 1 leader"},
        _flag("backfill", "old data: no skew rule"),
        _list("cells", CELL),
        _list("gaps", GAP),
        _list("copied", COPIED),
        CHECKSUM,
    ],
}
