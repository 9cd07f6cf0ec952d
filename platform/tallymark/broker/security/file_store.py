"""Users, quotas, access-control lists and settings changed at run time, in a file, for a broker
without ZooKeeper.

::

    security.json  {"salt_key": "<hex>", "users": {name: {config: text}}, "clients": {...},
                    "user_clients": {user: {client: {config: text}}}, "brokers": {id: {...}},
                    "groups": {...},
                    "acls": [{"kind", "pattern", "name", "principal", "permissionType",
                              "operation", "host"}]}

The file is replaced as a whole, and only its owner can read it. Both the broker and the command
line may change it: a lock file in the same folder (``security.lock``) prevents simultaneous
changes, and the broker checks every second whether another process has changed the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallymark.broker.security.store import SecurityRecords
from tallymark.errors import KafkaError, UserError
from tallymark.private_files import open_private
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.text import kind_name, restored, stored
from tallymark.protocol.acls.words import Pattern

FILE: Final = "security.json"
LOCK: Final = "security.lock"
LOOK_SECONDS: Final = 1.0


class FileSecurityStore:
    """The :class:`~tallymark.broker.security.store.SecurityStore` for ``enable.zookeeper=false``.
    ``folder`` is the broker's first log dir."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    def read(self) -> SecurityRecords:
        """See the port. UserError when the file exists but cannot be read: to continue without its
        denials would allow denied operations."""
        values = self._load()
        try:
            acls = frozenset(
                restored(item["kind"], Pattern[item["pattern"].upper()], item["name"], item)
                for item in values["acls"]
            )
            pairs = values.get("user_clients", {})
            return SecurityRecords(
                bytes.fromhex(values["salt_key"]),
                values["users"],
                values["clients"],
                {(user, client): held for user in pairs for client, held in pairs[user].items()},
                values.get("brokers", {}),
                values.get("groups", {}),
                acls,
            )
        except (KeyError, ValueError, TypeError, KafkaError) as error:
            raise UserError(
                f"{self._path} is not understood: {error!r}", "bring back a copy of it"
            ) from error

    def alter_user(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter("users", name, change)

    def alter_client(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter("clients", name, change)

    def alter_user_client(self, user: str, client: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        with self._changing() as values:
            pairs = values.setdefault("user_clients", {})
            _alter(pairs.setdefault(user, {}), client, change)
            if not pairs[user]:
                del pairs[user]

    def alter_broker(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter("brokers", name, change)

    def alter_group(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._alter("groups", name, change)

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """See the port."""
        with self._changing() as values:
            added, removed = [_item(acl) for acl in add], [_item(acl) for acl in remove]
            kept = [item for item in values["acls"] if item not in removed]
            values["acls"] = kept + [item for item in added if item not in kept]

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """See the port."""
        ended = threading.Event()
        seen = self._stamp()

        def look() -> None:
            nonlocal seen
            while not ended.wait(LOOK_SECONDS):
                now = self._stamp()
                if now != seen:
                    seen = now
                    callback()

        thread = threading.Thread(target=look, name="tallymark-security", daemon=True)
        thread.start()

        def cancel() -> None:
            ended.set()
            thread.join()

        return cancel

    def _alter(self, section: str, name: str, change: Mapping[str, str | None]) -> None:
        with self._changing() as values:
            _alter(values.setdefault(section, {}), name, change)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The file's content, to be changed; it is stored when the block ends without an error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(self._folder / LOCK, "w", encoding="utf-8", opener=open_private) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                values = self._load()
                yield values
                self._store(values)
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}") from error

    def _load(self) -> dict[str, Any]:
        try:
            values = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            values = {"salt_key": secrets.token_hex(32), "users": {}, "clients": {}, "acls": []}
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self._path}: {error}", "bring back a copy") from error
        if not isinstance(values, dict):
            raise UserError(f"{self._path} is not a JSON object", "bring back a copy of it")
        return values

    def _store(self, values: dict[str, Any]) -> None:
        draft = self._path.with_suffix(".tmp")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(json.dumps(values, indent=1, sort_keys=True).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def _alter(section: dict[str, dict[str, str]], name: str, change: Mapping[str, str | None]) -> None:
    held = section.get(name, {})
    wanted = {**held, **{key: value for key, value in change.items() if value is not None}}
    for key in [key for key, value in change.items() if value is None]:
        wanted.pop(key, None)
    section[name] = wanted
    if not wanted:
        del section[name]


def _item(acl: Acl) -> dict[str, str]:
    pattern = acl.pattern.name.lower()
    return {"kind": kind_name(acl.kind), "pattern": pattern, "name": acl.name, **stored(acl)}
