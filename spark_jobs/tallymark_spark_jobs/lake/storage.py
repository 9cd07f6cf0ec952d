"""The files of a table, wherever it lies: a folder of this machine, or an object store.

Paths are relative to the table's location. Options are those of the environment or of the settings
and are named as the object stores' own tools name them (``AWS_ENDPOINT_URL`` and so on); the table
formats get the same ones.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.table import SIDE_FOLDER

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

_S3_OPTIONS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint_override",
}
"""What pyarrow calls the options of S3."""


class StoredFile(NamedTuple):
    """A file below the location; ``changed_ms`` is when it was last written."""

    path: str
    bytes: int
    changed_ms: int


@dataclass(frozen=True)
class Storage:
    """Reads and writes files below one location. It holds no connection, so tasks may get it."""

    location: str
    options: Mapping[str, str]

    @property
    def local(self) -> bool:
        """Whether the location is a folder of this machine."""
        return "://" not in self.location

    @property
    def uri(self) -> str:
        """The location with its scheme."""
        return Path(self.location).absolute().as_uri() if self.local else self.location.rstrip("/")

    def address(self, path: str) -> str:
        """The whole address of a file, as Spark and DuckDB take it."""
        return f"{self.location.rstrip('/')}/{path}"

    def open(self) -> tuple[fs.FileSystem, str]:
        """A filesystem, and the folder of the location in it, without a slash at the end.
        UserError: the address cannot be used."""
        from pyarrow import fs

        if self.local:
            return fs.LocalFileSystem(), self.location.rstrip("/")
        try:
            if self.location.startswith(("s3://", "s3a://")):
                return fs.S3FileSystem(**self._s3_options()), self.location.split("://", 1)[1]
            found, root = fs.FileSystem.from_uri(self.location)
        except (OSError, ValueError) as error:
            raise UserError(f"{self.location}: cannot be used as a lake: {error}") from error
        return found, root.rstrip("/")

    def read(self, path: str) -> bytes:
        """A whole file. UserError: it cannot be read."""
        found, root = self.open()
        try:
            with found.open_input_stream(f"{root}/{path}") as stream:
                return bytes(stream.read())
        except OSError as error:
            raise UserError(f"{self.address(path)}: cannot be read: {error}") from error

    def write(self, path: str, content: bytes) -> None:
        """A file that is not there yet, with the folders above it. UserError: cannot be written."""
        with self.writing(path) as stream:
            stream.write(content)

    @contextmanager
    def writing(self, path: str) -> Iterator[NativeFile]:
        """A stream into a new file, which is on the disk when the block ends. UserError."""
        found, root = self.open()
        try:
            if self.local:
                found.create_dir(os.path.dirname(f"{root}/{path}"), recursive=True)
            with found.open_output_stream(f"{root}/{path}", compression=None) as stream:
                yield stream
            if self.local:
                _to_disk(Path(root, path))
        except OSError as error:
            raise UserError(f"{self.address(path)}: cannot be written: {error}") from error

    @contextmanager
    def reading(self, path: str) -> Iterator[NativeFile]:
        """A file that can be read anywhere in it. UserError."""
        found, root = self.open()
        try:
            with found.open_input_file(f"{root}/{path}") as source:
                yield source
        except OSError as error:
            raise UserError(f"{self.address(path)}: cannot be read: {error}") from error

    def broken(self, what: str) -> UserError:
        """The error of a table whose files are not what it says."""
        return UserError(f"{self.location}: {what}")

    def delete(self, path: str) -> None:
        """UserError: it cannot be deleted. A file that is not there is no error."""
        found, root = self.open()
        try:
            found.delete_file(f"{root}/{path}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self.address(path)}: cannot be deleted: {error}") from error

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below a folder, in any order; none where it does not exist."""
        from pyarrow import fs

        found, root = self.open()
        start = f"{root}/{folder}" if folder else root
        selector = fs.FileSelector(start, recursive=True, allow_not_found=True)
        for info in found.get_file_info(selector):
            if info.type == fs.FileType.File:
                yield StoredFile(
                    info.path[len(root) + 1 :], info.size, (info.mtime_ns or 0) // 1_000_000
                )

    def folders(self) -> list[str]:
        """The names of the folders in the location, sorted; none where it does not exist."""
        from pyarrow import fs

        found, root = self.open()
        inside = found.get_file_info(fs.FileSelector(root, allow_not_found=True))
        return sorted(info.base_name for info in inside if info.type == fs.FileType.Directory)

    def _s3_options(self) -> dict[str, str]:
        known = {**os.environ, **self.options}
        return {name: known[key] for key, name in _S3_OPTIONS.items() if known.get(key)}


def side_path(kind: str, ending: str) -> str:
    """A new path of a file that a commit names and that holds no rows of the table."""
    return f"{SIDE_FOLDER}/{kind}/{uuid.uuid4().hex}{ending}"


def _to_disk(path: Path) -> None:
    """A commit that names a file must not outlive it when the power fails."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
