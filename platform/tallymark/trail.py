"""The trail of what administrators do: one line of JSON for each thing that was changed, or tried.

::

    {"at": "2026-01-31T12:00:00.123Z", "process": "broker-0",
     "who": "User:alice", "host": "10.0.0.7", "client": "admin-1",
     "action": "ALTER_CONFIGS", "resource": {"type": "topic", "name": "clicks"},
     "before": {"retention.ms": "1000"}, "after": {"retention.ms": "60000"},
     "result": "NONE", "message": null}

``who`` is a principal, ``os-user:NAME`` of a command that writes to where brokers or the audit keep
things, or ``User:NAME`` of a user of the dashboards; ``result`` is the name of Kafka's error code.
Secrets are in none of them. Brokers (:mod:`tallymark.broker.trail.trail`), commands and dashboards
write the same lines.

A file takes lines of several processes at once: each write locks it, appends, and renames it to
``.1`` (that to ``.2``, ...) when it has grown too large.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tallymark.private_files import open_private

FILE_NAME: Final = "admin-trail.jsonl"
COMMANDS_FILE_NAME: Final = "admin-trail.commands.jsonl"
PLACE_VARIABLE: Final = "TALLYMARK_ADMIN_TRAIL"
"""The file of commands, where they should not choose one themselves."""
NO_ERROR: Final = "NONE"
_LONGEST_TEXT: Final = 2000
_MOST_PARTS: Final = 200
MAX_BYTES: Final = 16 * 1024 * 1024
KEPT: Final = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """One line; see the module's text. ``at`` is ms since 1970, UTC."""

    at: int
    process: str
    who: str
    host: str
    client: str | None
    action: str
    resource_type: str
    resource: str
    before: Any = None
    after: Any = None
    result: str = NO_ERROR
    message: str | None = None

    def line(self) -> bytes:
        """With its newline. Texts of clients are ASCII in it, and cut where they are very long."""
        found = asdict(self)
        seconds, ms = divmod(self.at, 1000)
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        found["at"] = f"{moment}.{ms:03d}Z"
        kind, name = found.pop("resource_type"), found.pop("resource")
        found["resource"] = {"type": kind, "name": name}
        ordered = {key: found[key] for key in _ORDER}
        return json.dumps(_bounded(ordered), separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Doer:
    """The author of an action: a principal, or ``os-user:NAME``; from which host, by which
    process."""

    who: str
    host: str
    process: str = "command"


_ORDER: Final = (
    *("at", "process", "who", "host", "client", "action", "resource"),
    *("before", "after", "result", "message"),
)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "..."
    if isinstance(value, Mapping):
        parts = list(value.items())
        kept = {str(_bounded(str(k))): _bounded(v) for k, v in parts[:_MOST_PARTS]}
        return kept | ({"...": len(parts) - _MOST_PARTS} if len(parts) > _MOST_PARTS else {})
    if isinstance(value, list | tuple):
        return [_bounded(each) for each in value[:_MOST_PARTS]]
    return value


class TrailFile:
    """The lines in ``path`` and ``path.1`` to ``path.N``, which other users cannot read (mode
    0600)."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept

    def write(self, lines: Iterable[bytes]) -> None:
        """Append all of them. OSError, also where ``path`` is a link: its author could have us
        write to another file."""
        data = b"".join(lines)
        while True:
            file = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not self._is(file):  # another process has renamed it in between
                    continue
                size = os.fstat(file).st_size
                if size and size + len(data) > self._max_bytes:
                    self._rotate()
                    continue
                _write_all(file, data)
                return
            finally:
                os.close(file)

    def _is(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(file))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        if self._kept:
            os.replace(self.path, f"{self.path}.1")
        else:
            os.unlink(self.path)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def record_command(
    now_ms: int,
    action: str,
    resource: tuple[str, str],
    *,
    before: Any = None,
    after: Any = None,
    message: str | None = None,
    folder: Path | None = None,
    doer: Doer | None = None,
) -> None:
    """A line for what was done without asking a broker, below ``folder`` (default: the user's state
    folder), or in the file that ``TALLYMARK_ADMIN_TRAIL`` names. ``doer``: the author; None: the
    user of the operating system, by a command. Where the line cannot be written, a warning: the
    action is done."""
    given = os.environ.get(PLACE_VARIABLE)
    if given:
        path = Path(given)
    else:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
        path = (folder or Path(state) / "tallymark") / COMMANDS_FILE_NAME
    kind, name = resource
    doer = doer or user_of_command()
    entry = Entry(
        at=now_ms,
        process=doer.process,
        who=doer.who,
        host=doer.host,
        client=None,
        action=action,
        resource_type=kind,
        resource=name,
        before=before,
        after=after,
        message=message,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        TrailFile(path).write([entry.line()])
    except OSError as error:
        why = error.strerror or str(error)
        sys.stderr.write(f"warning: this is not in the trail {path}: {why}\n")


def user_of_command() -> Doer:
    """The user of the operating system that calls a command."""
    return Doer(f"os-user:{os_user()}", socket.gethostname())


def os_user() -> str:
    """Their name; the number where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # containers with a number only
        return str(os.getuid())
