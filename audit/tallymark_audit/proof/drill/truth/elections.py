"""What an unclean election took, from the log of the leader before: its files are copied while its
broker is dead, before it can cut them. Nothing that brokers report or save is used."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tallymark_audit.proof.drill.truth.books_and_logs import Log, read_files
from tallymark_audit.proof.drill.truth.expected import LOSS, Expectation, messages_of


class UncleanElection(NamedTuple):
    """``broker`` leads the partition from ``leader_epoch`` on; its log ended at ``from_offset``.
    The leader before, ``loser``, had a log up to ``to_offset`` (excluded), of which ``files`` are
    the copied segments."""

    cluster: str
    topic: str
    partition: int
    broker: int
    leader_epoch: int
    from_offset: int
    loser: int
    to_offset: int
    files: tuple[Path, ...] = ()


def expect_saved(found: Expectation, election: UncleanElection, downstream: Log) -> None:
    """What the election took is saved by the broker that cuts it, so a repair brings it back. What
    is ``downstream`` already, a repair leaves alone: a mirror would copy it a second time."""
    log: Log = {}
    read_files(election.files, election.topic, election.partition, log)
    saved = messages_of(log) - messages_of(downstream)
    edge = f"producer-to-{election.cluster}"
    found.saved |= {
        item
        for item in found.items
        if item.kind == LOSS and item.cell.edge == edge and item.who in saved
    }
