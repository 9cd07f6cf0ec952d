"""What a journal says of its run's open transaction, and how far that can be believed.

A killed process leaves all that it wrote. A host that lost its power may have lost the last
entries, and with them the note that a commit was about to be asked for. So where the host has
started anew since, a transaction that looks OPEN may have been committed all the same.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
NO_BOOT: Final = bytes(16)
"""Where the system does not say."""


@cache
def this_boot() -> bytes:
    """16 bytes that are other ones after each start of the host."""
    try:
        return UUID(_BOOT.read_text().strip()).bytes
    except (OSError, ValueError):
        return NO_BOOT


def as_read(stage: int, boot: bytes, now: bytes) -> TransactionStage | None:
    """The stage that an entry of that ``boot`` says, as read under the boot ``now``. ValueError:
    there is no such stage."""
    if stage == 0:
        return None
    known = TransactionStage(stage)
    trusted = boot == now != NO_BOOT
    return TransactionStage.ENDING if known is TransactionStage.OPEN and not trusted else known
