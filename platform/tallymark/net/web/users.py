"""The users of an HTTP server: those of a ``security.json``, as ``tallymark users add NAME --data
FOLDER`` writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.net.sasl.credential_text import parse_credential
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import ScramCredential
from tallymark.reread_file import RereadFile

_FALSE: Final = ScramCredential(SCRAM_SHA_512, os.urandom(32), 4096, bytes(64), bytes(64))


class WebUsers:
    """The users of one file, which is read again when it has changed
    (:class:`tallymark.reread_file.RereadFile`). Thread-safe.

    UserError where it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._file = RereadFile(path, _read, "the users")

    @property
    def version(self) -> object:
        """A value that differs after the users have changed."""
        return self._file.version

    def knows(self, name: str) -> bool:
        """Whether there is such a user."""
        return name in self._file.value

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's. Takes milliseconds, also where there is no user."""
        found = self._file.value.get(name)
        return (found or _FALSE).fits(password) and found is not None


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
