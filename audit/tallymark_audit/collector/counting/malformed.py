"""Why a ``tm`` header is no stamp: for the reports; counting only needs to know that it is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.client.producing.stamps import INSTANCE_BYTES, MAX_SERVER_BYTES, STAMP_VERSION
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.store.counted.incidents import Incident

MALFORMED_STAMP: Final = "malformed-stamp"
_NUMBERS: Final = 1 + INSTANCE_BYTES
_LONGEST_NUMBER: Final = 9


def why_malformed(raw: bytes) -> str:
    """What is wrong with it: one of a few sentences, whatever the bytes. It is known that
    something is."""
    if not raw:
        return "the stamp is empty"
    if raw[0] != STAMP_VERSION:
        return f"the stamp is of version {raw[0]}, this collector knows {STAMP_VERSION}"
    at = _NUMBERS
    for name in ("partition", "sequence"):
        size = next((n for n, byte in enumerate(raw[at : at + 10], 1) if byte < 0x80), 0)
        if not size and len(raw) < at + _LONGEST_NUMBER:
            return f"the stamp is cut short before the end of its {name}"
        if not size or size > _LONGEST_NUMBER or (size > 1 and not raw[at + size - 1]):
            return f"the {name} of the stamp is no number that can be"
        at += size
    server = raw[at:]
    if len(server) > MAX_SERVER_BYTES:
        return f"the server's name in the stamp is longer than {MAX_SERVER_BYTES} bytes"
    if b"\0" in server:
        return "the server's name in the stamp has a NUL"
    try:
        server.decode()
    except UnicodeDecodeError:
        return "the server's name in the stamp is not UTF-8"
    return "the partition of the stamp is no number that can be"


def malformed_incidents(runs: Iterable[SeenRun], place: TopicPartition) -> list[Incident]:
    """What to report of the runs of one fetch, one incident a reason."""
    found: dict[str, list[SeenRun]] = {}
    for run in runs:
        if run.raw is not None:
            found.setdefault(why_malformed(run.raw), []).append(run)
    return [
        Incident(
            MALFORMED_STAMP,
            reason,
            *place,
            some[0].offset,
            some[-1].last_offset + 1,
            sum(run.count for run in some),
        )
        for reason, some in sorted(found.items())
    ]
