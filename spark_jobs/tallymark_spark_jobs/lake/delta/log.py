"""What the versions of a Delta table say about themselves, read from its log.

``DeltaTable.history()`` counts the versions down from that of the handle, but reads the newest
ones: where a commit was made in between, it gives every version the number of its predecessor. A
number is what makes reports of a commit be sent once, so the log is read here, file by file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tallymark_spark_jobs.lake.heads import KEY, id_of, operation_of
from tallymark_spark_jobs.lake.storage import Storage

FOLDER: Final = "_delta_log"
_FILE: Final = re.compile(rf"{FOLDER}/(\d{{20}})\.json")


class Told(NamedTuple):
    """The ``commitInfo`` of a version."""

    version: int
    info: dict[str, Any]

    @property
    def head(self) -> str:
        """What this package wrote into it; ``""``: the version is another program's."""
        return str(self.info.get(KEY, ""))


def versions_there(storage: Storage, since: int = 0) -> list[int]:
    """The versions whose file is still there, sorted: the log of a table is cut after a time."""
    found = (_FILE.fullmatch(file.path) for file in storage.files(FOLDER))
    return sorted(number for each in found if each and (number := int(each[1])) >= since)


def told_by(storage: Storage, versions: Sequence[int]) -> Iterator[Told]:
    """What these versions say, in their order; nothing of those that say nothing."""
    for version in versions:
        content = storage.read(f"{FOLDER}/{version:020d}.json")
        for line in content.splitlines():
            if b'"commitInfo"' not in line:
                continue
            action = json.loads(line)
            if "commitInfo" in action:
                yield Told(version, action["commitInfo"])
                break


def restored_past_a_load(storage: Storage, newest: int) -> str:
    """If the table was restored to a version before its last load: the name of that version. Such a
    table lacks rows, and its application transactions say that it has them; ``""``: it was not."""
    target: int | None = None
    for told in told_by(
        storage, [one for one in reversed(versions_there(storage)) if one <= newest]
    ):
        if told.info.get("operation") == "RESTORE" and target is None:
            target = _version(told.info)
        elif id_of(told.head) and operation_of(told.head) in ("load", "repair"):
            return f"version {target}" if target is not None and target < told.version else ""
    return ""


def _version(info: dict[str, Any]) -> int:
    """Where a RESTORE went; -1: it does not say, so it has to be taken as far back."""
    try:
        return int(info["operationParameters"]["version"])
    except (KeyError, TypeError, ValueError):
        return -1
