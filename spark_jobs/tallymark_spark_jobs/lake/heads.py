"""What a commit writes into its table about itself, and reads back.

A *head* is a JSON object in the metadata of the table's version::

    {"v": 1, "id": "...", "operation": "load", "job": "...", "rows": 10, "quarantined": 0,
     "late": 0, "gaps": 0, "expired": 0, "detail": {...}}

``detail`` is inline while it is small. A large one is a Parquet file of tallies below
:data:`~tallymark_spark_jobs.lake.table.SIDE_FOLDER`, with the rest in the file's own metadata, and
the head has ``"file": {"path", "sha256", "bytes"}`` instead: every reader of a table reads the
metadata of its versions, and 2 MB in one of them cost each of them 0.4 s.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, cast

from tallymark_spark_jobs.counting.codec import from_arrow, from_json, schema, to_arrow, to_json
from tallymark_spark_jobs.lake.commits import commit_of, detail_of
from tallymark_spark_jobs.lake.storage import Storage, side_path
from tallymark_spark_jobs.lake.table import (
    Append,
    Commit,
    Detail,
    OffsetRange,
    Operation,
    PartitionKey,
    Refused,
)

KEY: Final = "tallymark"
"""The key of heads in a table's metadata."""
MOST_TALLIES_INLINE: Final = 500
_NUMBERS: Final = ("rows", "quarantined", "late", "gaps", "expired")
"""As :class:`~tallymark_spark_jobs.lake.table.Commit` has them, in its order."""
_REST: Final = b"tallymark.detail"


@dataclass(frozen=True, slots=True)
class Pending:
    """A commit that is about to be tried: ``head`` is what the version will say; ``id`` finds the
    version again, if the answer to the attempt is lost."""

    id: str
    head: str


def pending(append: Append, storage: Storage, most_inline: int) -> Pending:
    """The head of an append; writes the file of its detail, if it needs more bytes than
    ``most_inline``."""
    detail = detail_of(append)
    commit = commit_of(append, 0, 0)
    head: dict[str, object] = {
        "v": 1,
        "id": uuid.uuid4().hex,
        "operation": commit.operation,
        "job": commit.job,
        **{name: getattr(commit, name) for name in _NUMBERS},
    }
    if detail.side_files:
        head["side_files"] = len(detail.side_files)
    rest = _rest(detail)
    inline = {**rest, "tallies": [to_json(tally) for tally in detail.tallies[:MOST_TALLIES_INLINE]]}
    if len(detail.tallies) <= MOST_TALLIES_INLINE and len(_text(inline)) <= most_inline:
        head["detail"] = inline
    else:
        head["file"] = _written(detail, rest, storage)
    return Pending(str(head["id"]), _text(head))


def maintenance(operation: Operation, job: str) -> Pending:
    """The head of a commit that loads nothing."""
    name = uuid.uuid4().hex
    return Pending(name, _text({"v": 1, "id": name, "operation": operation, "job": job}))


def commit_from(head: str, version: int, at_ms: int, storage: Storage) -> Commit:
    """The commit whose version says ``head``. Refused: it says something that this program does not
    understand."""
    try:
        told: dict[str, Any] = json.loads(head)
        if told["v"] != 1:
            raise ValueError(f"it was written by a newer release (form {told['v']})")
        rows, quarantined, late, gaps, expired = (int(told.get(name, 0)) for name in _NUMBERS)
        operation, job = cast("Operation", told["operation"]), str(told["job"])
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{storage.location}: version {version} cannot be understood: {error}"
        ) from error
    return Commit(
        version,
        at_ms,
        operation,
        job,
        rows,
        quarantined,
        late,
        gaps,
        expired,
        detail=lambda: _detail(told, version, storage),
    )


def id_of(head: str) -> str:
    """The id of the attempt that made this head; ``""``: it has none."""
    return str(_object(head).get("id", ""))


def operation_of(head: str) -> str:
    """What the version did; ``""``: it does not say."""
    return str(_object(head).get("operation", ""))


def detail_file(head: str) -> str:
    """The file of the detail; ``""``: it has none."""
    return str(_object(head).get("file", {}).get("path", ""))


def counts_side_files(head: str) -> int:
    """How many side files the detail names."""
    return int(_object(head).get("side_files", 0))


def _object(head: str) -> dict[str, Any]:
    """A head that cannot be read is one of a newer release."""
    try:
        told = json.loads(head)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _detail(told: dict[str, Any], version: int, storage: Storage) -> Detail:
    try:
        if "file" not in told:
            inline: dict[str, Any] = told.get("detail", {})
            tallies = tuple(from_json(raw) for raw in inline.get("tallies", ()))
            return _with_rest(inline, tallies)
        return _read(told["file"], storage)
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{storage.location}: the tallies of version {version} cannot be read: {error}"
        ) from error


def _written(detail: Detail, rest: dict[str, object], storage: Storage) -> dict[str, object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = schema().with_metadata({_REST: _text(rest).encode()})
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_batches([to_arrow(detail.tallies)])
    pq.write_table(rows.replace_schema_metadata(columns.metadata), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    path = side_path("tallies", ".parquet")
    storage.write(path, content)
    return {
        "path": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }


def _read(file: dict[str, Any], storage: Storage) -> Detail:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = storage.read(str(file["path"]))
    digest = hashlib.sha256(content).hexdigest()
    if digest != file["sha256"]:
        raise ValueError(f"{file['path']} is not the file that was committed (digest {digest})")
    rows = pq.read_table(pa.BufferReader(content))
    rest = json.loads((rows.schema.metadata or {})[_REST])
    return _with_rest(rest, tuple(from_arrow(rows)))


def _rest(detail: Detail) -> dict[str, object]:
    told: dict[str, object] = {"ranges": ranges_out(detail.ranges)}
    if detail.expired:
        told["expired"] = ranges_out(detail.expired)
    if detail.side_files:
        told["side_files"] = list(detail.side_files)
    return told


def _with_rest(told: dict[str, Any], tallies: tuple[Any, ...]) -> Detail:
    return Detail(
        ranges_in(told.get("ranges", [])),
        tallies,
        ranges_in(told.get("expired", [])),
        tuple(str(path) for path in told.get("side_files", ())),
    )


def ranges_out(ranges: tuple[OffsetRange, ...]) -> list[object]:
    """``[cluster id, topic id, topic, [[partition, start, end] ...]]`` a topic: two thousand
    partitions name their topic once."""
    grouped = groupby(sorted(ranges), key=lambda one: one.key[:3])
    return [[*topic, [[one.key.partition, *one[1:]] for one in ones]] for topic, ones in grouped]


def ranges_in(told: list[Any]) -> tuple[OffsetRange, ...]:
    """The inverse of :func:`ranges_out`."""
    return tuple(
        OffsetRange(PartitionKey(cluster_id, topic_id, topic, partition), start, end)
        for cluster_id, topic_id, topic, ones in told
        for partition, start, end in ones
    )


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
