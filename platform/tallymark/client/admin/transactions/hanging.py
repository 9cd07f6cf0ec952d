"""Does a transaction that is open in a partition hang: will no coordinator ever end it? Pure.

Readers of committed records wait at an open transaction. Its coordinator ends it, at the latest
after its timeout; one that no coordinator will end stays open for ever (KIP-664):

=========================================  ==================  ==================================
what the coordinators say                  here                why
=========================================  ==================  ==================================
no id has this producer id                 HANGING, unknown    forgotten, or never there
Empty, Complete..., Dead                   HANGING, finished   its end is written everywhere, and
                                                               was not written here
an older epoch than the partition's        HANGING, older      the partition refuses its marker
Ongoing or Prepare without the partition   HANGING, left out   the end will not come here
Ongoing, a newer epoch                     HANGING, stale      it began before the one that is
                                                               open now, which must not end it
Ongoing, with the partition                RUNNING
Prepare, with the partition                ENDING              its marker is on its way
not all ids could be seen                  UNDECIDED           unless one of the above is certain
=========================================  ==================  ==================================

**In which order to ask.** First the partition, then the coordinators, then the partition again: a
transaction that is the same one (producer and first offset) before and after, and that its
coordinator did not have in between, cannot end any more. What is no longer there has just ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition

ONGOING: Final = "Ongoing"
PREPARED: Final = frozenset(("PrepareCommit", "PrepareAbort", "PrepareEpochFence"))
"""The states of a transaction that has no end yet, by Kafka's names; the others have none."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition. ``coordinator_epoch`` is that of the producer's
    last marker there, or -1; ``last_timestamp`` of its last batch, ms UTC."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int = -1
    last_timestamp: int = -1

    @property
    def key(self) -> tuple[TopicPartition, int, int]:
        """Which transaction it is: no other begins there."""
        return self.partition, self.producer_id, self.start_offset


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """What a coordinator knows of a transactional id. ``state`` is Kafka's name; ``started_ms`` is
    -1 where nothing is open; ``coordinator`` is a broker's id, -1 where it is not known."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    coordinator: int = -1


class Standing(Enum):
    """What follows for a transaction that is open in a partition."""

    HANGING = "hanging"
    RUNNING = "running"
    ENDING = "ending"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Judged:
    """An open transaction, what its coordinator knows (None: no id has its producer id), and what
    follows. ``why`` is for people."""

    open: OpenTransaction
    verdict: Standing
    why: str
    known: KnownTransaction | None = None


def judge(
    open_: OpenTransaction, known: Iterable[KnownTransaction], *, all_answered: bool
) -> Judged:
    """What follows for ``open_``. ``known``: the transactional ids that have its producer id;
    ``all_answered``: there is no other id that could have it."""
    ids = [each for each in known if each.producer_id == open_.producer_id]
    if not ids:
        if not all_answered:
            return Judged(open_, Standing.UNDECIDED, "not all transactional ids could be seen")
        return Judged(open_, Standing.HANGING, "no transactional id has this producer id")
    # An id never shares its producer id; were there two, the one that can end this one counts.
    found = [_of(open_, each) for each in ids]
    return next((each for each in found if each.verdict is not Standing.HANGING), found[0])


def _of(open_: OpenTransaction, known: KnownTransaction) -> Judged:
    there, here = known.producer_epoch, open_.producer_epoch
    if known.state != ONGOING and known.state not in PREPARED:
        why = f"its coordinator has finished it: {known.state}"
    elif there < here:
        why = f"its coordinator is at epoch {there}, older than {here}: its marker is refused"
    elif open_.partition not in known.partitions:
        why = f"the transaction of its coordinator ({known.state}) does not have this partition"
    elif known.state == ONGOING and there > here:
        why = f"it was left behind by epoch {here}; epoch {there} is open now"
    elif known.state == ONGOING:
        return Judged(open_, Standing.RUNNING, "its coordinator has it open", known)
    else:
        return Judged(open_, Standing.ENDING, f"{known.state}: its marker is on its way", known)
    return Judged(open_, Standing.HANGING, why, known)


def still_open(judged: Iterable[Judged], now_open: Iterable[OpenTransaction]) -> list[Judged]:
    """Those that the partitions have open after the coordinators were asked, as they had before."""
    keys = {each.key for each in now_open}
    return [each for each in judged if each.open.key in keys]
