"""The two trails of a broker: what administrators do, and the incidents of replication."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallymark.broker.connections.port import BrokerConnections
from tallymark.broker.replicas.incidents import INCIDENTS, INCIDENTS_FILE
from tallymark.broker.state import BrokerState
from tallymark.broker.trail.trail import Trail
from tallymark.clock import now_ms
from tallymark.errors import CODES, KafkaError
from tallymark.log import Files, OsFiles
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.trail import FILE_NAME, TrailFile

_TIMEOUT_MS: Final = 10_000
_AGAIN_BYTES: Final = 64 * 1024
_AGAIN_MS: Final = 7 * 24 * 3_600_000


def admin_trail(state: BrokerState, files: Files, folder: Path) -> Trail | None:
    """The trail of administrators, in the file of ``admin.trail.file`` (if empty, one in
    ``folder``) and in the topic of ``admin.trail.topic``. None: a disk in memory and no topic."""
    settings, file = state.settings, None
    if not isinstance(files, OsFiles) and not settings.admin_trail_topic:
        return None
    if isinstance(files, OsFiles) and settings.admin_trail_file != "none":
        file = TrailFile(
            Path(settings.admin_trail_file) if settings.admin_trail_file else folder / FILE_NAME,
            settings.admin_trail_file_max_bytes,
            settings.admin_trail_files_kept,
        )
    trail = Trail(state, file, settings.admin_trail_topic)
    state.metrics.trail = trail.counts
    return trail


def incident_trail(
    state: BrokerState, files: Files, folder: Path, connections: BrokerConnections
) -> Trail:
    """Where unclean elections and cuts of committed records are reported: a file in ``folder``, and
    a topic; nowhere with a disk in memory. When such things happen a broker may lead nothing, so
    it sends to the leader of a partition of the topic. At its start it sends the reports of the
    last week again: it, or the broker that took them, may have been killed before they were in the
    topic. A reader of the topic knows by their content which it has already."""
    if not isinstance(files, OsFiles):
        return Trail(state, None, "", INCIDENTS)
    topic = state.settings.replication_incidents_topic
    trail = Trail(state, TrailFile(folder / INCIDENTS_FILE), topic, INCIDENTS)
    trail.elsewhere = partial(_append_elsewhere, state, connections)
    trail.put_again(told_lately(folder / INCIDENTS_FILE, now_ms()))
    return trail


def told_lately(path: Path, now: int) -> list[bytes]:
    """The newest lines of a file of incidents, oldest first, each with its newline; ``now`` in ms.
    Nothing where it cannot be read, and no line that a kill cut."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _AGAIN_BYTES))
            lines = file.read(_AGAIN_BYTES).splitlines(keepends=True)
    except OSError:
        return []
    return [line for line in lines if _at(line) >= now - _AGAIN_MS]


def _at(line: bytes) -> int:
    """When it was told (ms); -1: it is not a whole line."""
    try:
        found: Any = json.loads(line)
        return int(found["at"]) if line.endswith(b"\n") else -1
    except (ValueError, TypeError, KeyError):
        return -1


async def _append_elsewhere(
    state: BrokerState, connections: BrokerConnections, topic: str, batch: bytes
) -> None:
    """Produce to a partition of the topic that another broker leads. TallymarkError: there is none
    now, or it refuses (the user of the brokers needs WRITE on the topic)."""
    image = state.image.topics.get(topic)
    places = enumerate(image.partitions if image is not None else ())
    led = next(((index, each.leader) for index, each in places if each.leader >= 0), None)
    if led is None:
        raise KafkaError(CODES["LEADER_NOT_AVAILABLE"], f"no partition of {topic} has a leader")
    part = ProduceRequestPartition(index=led[0], records=batch)
    request = ProduceRequest(
        acks=1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[ProduceRequestTopic(name=topic, partition_data=[part])],
    )
    connection = await connections.open(led[1])
    try:
        answer: Any = await connection.send(request, _TIMEOUT_MS)
    finally:
        await connection.close()
    (told,) = answer.responses[0].partition_responses
    if told.error_code:
        raise KafkaError(told.error_code, f"{topic}-{led[0]} at broker {led[1]}")
