"""The name of a partition's folder, the topic id in it, and its removal.

``orders-0`` is partition 0 of the topic ``orders``. ``partition.metadata`` in it holds the topic's
id (KIP-516), so that a topic that was deleted and created again is not confused with the old one::

    version: 0
    topic_id: CoO2Ch4lTmGVUoPBzIZmrw        the 16 bytes in base64url, without padding

A folder that is being deleted is renamed first, to ``orders-0.<32 hex digits>-delete``; that of a
replica that is on other brokers now to ``orders-0.<32 hex digits>-stray``, and removed later.
``orders-0.<...>-kept`` is the log of a topic that ZooKeeper has lost, and whose name another topic
has now; nothing removes it. ``orders-0.<...>-truncated`` has records that were saved
(:mod:`tallymark.log.saved_tails`).
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Final, NamedTuple

from tallymark.log.disk.files import Files, write_file

DELETED: Final = "-delete"
STRAY: Final = "-stray"
KEPT: Final = "-kept"
_METADATA: Final = "partition.metadata"


class LogKey(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_folder(name: str) -> LogKey | None:
    """The partition of a folder's name, None for any other name."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return LogKey(topic, int(number)) if str(int(number)) == number else None


def key_of(name: str) -> LogKey:
    """The partition of a log by its folder's name; one that is not named so is partition 0."""
    return parse_folder(name) or LogKey(name, 0)


def deleted_name(name: str, suffix: str = DELETED) -> str:
    """What a folder is renamed to; never longer than a file name may be."""
    return f"{name[:200]}.{uuid.uuid4().hex}{suffix}"


def write_topic_id(files: Files, folder: str, topic_id: uuid.UUID) -> None:
    """Write the topic's id into the folder, durably."""
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    write_file(files, f"{folder}/{_METADATA}", f"version: 0\ntopic_id: {text}".encode())


def read_topic_id(files: Files, folder: str) -> uuid.UUID | None:
    """The topic's id, None where the file is missing or damaged."""
    try:
        lines = files.read(f"{folder}/{_METADATA}").decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    pairs = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(pairs.get("topic_id", "") + "=="))
    except (ValueError, binascii.Error):
        return None


def remove_folder(files: Files, folder: str) -> None:
    """Remove a folder and the files in it."""
    for name in files.listdir(folder):
        files.remove(f"{folder}/{name}")
    files.remove_dir(folder)
