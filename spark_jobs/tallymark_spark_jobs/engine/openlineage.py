"""Reports to lineage tools what a load wrote: an OpenLineage run event, where one is wanted.

The variables are those of OpenLineage's own clients: ``OPENLINEAGE_URL`` (or ``file:///...``, which
gets a line an event), ``OPENLINEAGE_ENDPOINT``, ``OPENLINEAGE_API_KEY``, ``OPENLINEAGE_NAMESPACE``;
``OPENLINEAGE_DISABLED=true`` turns it off. The specification has data quality assertions on inputs
alone, so that of completeness stands at the topic: whether all that was to be read of it is in the
table.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

PRODUCER: Final = "https://tallymark.invalid/spark_jobs"
_SPEC: Final = "https://openlineage.io/spec"
_EVENT: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """One table of a load. ``server``: ``host:port`` of the cluster. ``location``: path or address.
    ``version``: of the table, None where nothing was new. ``missing``: why offsets of the plan are
    not in the table, a line each."""

    server: str
    topic: str
    location: str
    rows: int
    bytes: int
    files: int
    version: int | None
    missing: tuple[str, ...] = ()


def run_event(
    job: str, run: str, at_ms: int, namespace: str, tables: Sequence[LoadedTable]
) -> dict[str, Any]:
    """The event of a run that has ended; ``run`` is any name of it, ``at_ms`` is UTC. Tables to
    which nothing was added are inputs alone."""
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return {
        "eventType": "COMPLETE",
        "eventTime": when.isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
        "run": {"runId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{PRODUCER}/{run}"))},
        "job": {"namespace": namespace, "name": job},
        "inputs": [_input(table) for table in tables],
        "outputs": [_output(table) for table in tables if table.version is not None],
    }


def _input(table: LoadedTable) -> dict[str, Any]:
    assertion = {
        "assertion": "every offset that was to be read is in the table",
        "success": not table.missing,
    }
    if table.missing:
        assertion["actual"] = "; ".join(table.missing)[:1000]
    return {
        "namespace": f"kafka://{table.server}",
        "name": table.topic,
        "inputFacets": {
            "dataQualityAssertions": _facet(
                "1-1-0/DataQualityAssertionsDatasetFacet", assertions=[assertion]
            )
        },
    }


def _output(table: LoadedTable) -> dict[str, Any]:
    namespace, name = named(table.location)
    statistics = _facet(
        "1-0-2/OutputStatisticsOutputDatasetFacet",
        rowCount=table.rows,
        size=table.bytes,
        fileCount=table.files,
    )
    version = _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=str(table.version))
    return {
        "namespace": namespace,
        "name": name,
        "facets": {"version": version},
        "outputFacets": {"outputStatistics": statistics},
    }


def _facet(schema: str, **fields: Any) -> dict[str, Any]:
    name = schema.partition("/")[2]
    url = f"{_SPEC}/facets/{schema}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **fields}


def named(location: str) -> tuple[str, str]:
    """Namespace and name of a table: ``file`` and its path, or ``s3://bucket`` and its key."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "file", unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def send(event: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """Send the event where ``environment`` says, if it says so. Why it could not be sent, or None:
    a load is no worse because a catalogue is away."""
    url = environment.get("OPENLINEAGE_URL", "")
    if not url or environment.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return None
    if url.startswith("file://"):
        return _append(Path(unquote(urlsplit(url).path)), event)
    import httpx

    endpoint = environment.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage")
    key = environment.get("OPENLINEAGE_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/{endpoint}", json=event, headers=headers, timeout=_TIMEOUT_S
        )
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"the lineage event was not taken: {error}"
    return None


def _append(file: Path, event: Mapping[str, Any]) -> str | None:
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(event) + "\n")
    except OSError as error:
        return f"the lineage event was not written to {file}: {error.strerror}"
    return None
