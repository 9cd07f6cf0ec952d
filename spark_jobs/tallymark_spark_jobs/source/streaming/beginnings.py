"""Where a stream began, kept in a file before its first batch.

Spark's offset log has the end of batch 0 and not its start: when a query dies in batch 0 and is
started again, Spark asks for the initial offsets again. "Latest" is another offset by then, and
"earliest" may be, too, because retention has deleted some records: what was between is lost and
nothing says so. The file has the first answer, and every later question gets the same one.

It also holds the ids of the topics, so that a topic that was deleted and made anew between two runs
is seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from tallymark.errors import UserError
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.streaming.offsets import Offsets, from_json, to_json

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Beginning:
    """``asked``: the starting option that gave ``offsets``. ``ids`` of topics, by name."""

    asked: str
    offsets: Offsets
    ids: Mapping[str, str]


class BeginningFile:
    """The file of one stream in the folder ``location``: a path, or an address that Arrow's file
    systems know (``s3://``, ``hdfs://``, ``gs://``, ``file://``)."""

    def __init__(self, location: str, source: SourceOptions) -> None:
        subscription = repr((source.topics, source.pattern, source.assigned))
        digest = hashlib.sha256(subscription.encode()).hexdigest()[:12]
        self._name = f"tallymark-start-{digest}.json"
        self.path = f"{location.rstrip('/')}/{self._name}"
        with _explained(self.path):
            self._folder: _Folder = _Remote(location) if "://" in location else _Local(location)

    def read(self) -> Beginning | None:
        """None: the stream has not begun. Raises UserError for a file that is not one of ours."""
        with _explained(self.path):
            text = self._folder.read(self._name)
        if text is None:
            return None
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise ValueError(f"it has version {found['version']}")
            return Beginning(found["asked"], from_json(found["offsets"]), dict(found["ids"]))
        except (ValueError, KeyError, TypeError, UserError) as error:
            raise UserError(
                f"{self.path} does not say where the stream began: {error}",
                "restore it; without it and the checkpoint the stream begins anew",
            ) from error

    def begin(self, beginning: Beginning) -> Beginning:
        """Write it, unless it is there: what counts is returned."""
        with _explained(self.path):
            if self._folder.create(self._name, _text(beginning)):
                return beginning
        found = self.read()
        assert found is not None, "nothing deletes it"
        return found

    def replace(self, beginning: Beginning) -> None:
        """Write it in place of what is there: a new topic has come."""
        with _explained(self.path):
            self._folder.replace(self._name, _text(beginning))


def _text(beginning: Beginning) -> bytes:
    told: dict[str, Any] = {
        "version": VERSION,
        "asked": beginning.asked,
        "offsets": to_json(beginning.offsets),
        "ids": dict(sorted(beginning.ids.items())),
    }
    return json.dumps(told, indent=1).encode()


class _explained:
    """An error of the file system as one of ours."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | ValueError) and not isinstance(error, UserError):
            raise UserError(
                f"{self._path} cannot be read or written: {error}",
                "startingOffsetsLocation needs a folder that the driver may write to",
            ) from error


class _Folder(Protocol):
    def read(self, name: str) -> bytes | None: ...

    def create(self, name: str, data: bytes) -> bool:
        """False where it is there already."""
        ...

    def replace(self, name: str, data: bytes) -> None: ...


class _Local:
    def __init__(self, location: str) -> None:
        self._path = Path(location).expanduser()

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._path / name).read_bytes()
        return None

    def create(self, name: str, data: bytes) -> bool:
        new = self._written(data)
        try:
            os.link(new, self._path / name)  # whole or not at all, and never over another
        except FileExistsError:
            return False
        finally:
            new.unlink()
        self._sync()
        return True

    def replace(self, name: str, data: bytes) -> None:
        self._written(data).replace(self._path / name)
        self._sync()

    def _written(self, data: bytes) -> Path:
        self._path.mkdir(parents=True, exist_ok=True)
        new = self._path / f".tallymark-start-{uuid4().hex}.new"
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return new

    def _sync(self) -> None:
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _Remote:
    """One driver writes at a time: Arrow's file systems cannot create a file only if it is not
    there."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        known = re.sub("^s3[an]://", "s3://", location)  # Hadoop's names, which Spark wants
        self._fs, self._path = fs.FileSystem.from_uri(known)

    def read(self, name: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(f"{self._path}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        if self.read(name) is not None:
            return False
        self.replace(name, data)
        return True

    def replace(self, name: str, data: bytes) -> None:
        self._fs.create_dir(self._path, recursive=True)
        new = f"{self._path}/{name}.{uuid4().hex}.new"
        with self._fs.open_output_stream(new) as file:
            file.write(data)
        self._fs.move(new, f"{self._path}/{name}")
