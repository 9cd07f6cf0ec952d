"""The users of an HTTP server: those of a ``security.json``, as ``tallymark users add NAME --data
FOLDER`` writes it."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.net.sasl.credential_text import parse_credential
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import ScramCredential

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
_FALSE: Final = ScramCredential(SCRAM_SHA_512, os.urandom(32), 4096, bytes(64), bytes(64))


class WebUsers:
    """The users of one file. The file is read again when it has changed, checked at most once a
    second; where it cannot be read then, the users that were read last stay valid. Thread-safe.

    UserError where it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._stamp = _stamp(path)
        self._users = _read(path)

    @property
    def version(self) -> object:
        """A value that differs after the users have changed."""
        self._look()
        return self._stamp

    def knows(self, name: str) -> bool:
        """Whether there is such a user."""
        self._look()
        return name in self._users

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's. Takes milliseconds, also where there is no user."""
        self._look()
        found = self._users.get(name)
        return (found or _FALSE).fits(password) and found is not None

    def _look(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked < LOOK_SECONDS:
                return
            self._looked = time.monotonic()
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            try:
                self._users, self._stamp = _read(self._path), stamp
            except UserError as error:
                log.error("the users stay as they were: %s", error)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> dict[str, ScramCredential]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: credential
            for name, held in values["users"].items()
            if (credential := _credential(held)) is not None
        }
    except OSError as error:
        raise UserError(
            f"cannot read the users in {path}: {error.strerror}",
            f"make some: tallymark users add NAME --data {path.parent}",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not understood: {error!r}", "bring back a copy of it"
        ) from error


def _credential(held: Mapping[str, Any]) -> ScramCredential | None:
    for mechanism in (SCRAM_SHA_512, SCRAM_SHA_256):
        if mechanism in held:
            return parse_credential(mechanism, held[mechanism])
    return None
