"""The checks of the batches of a leader, before a follower writes the same bytes. Pure.

The leader has given them offsets and epochs, and has decided whether they may be written:
sequences, sizes, timestamps and keys are not looked at again, and compressed records are not
opened. What is checked is what would make the two logs differ, or damage ours:

==============  ===================================================================  ==============
problem         a batch ...                                                          whose fault
==============  ===================================================================  ==============
CUT_OFF         ends behind the bytes of the answer                                  leader
FORMAT          has no header that a batch can have, or another format (magic)       leader
CORRUPT         does not have its CRC: the leader's disk, or the way to us           leader
OUT_OF_ORDER    begins before the one in front of it has ended                       leader
OVERLAP         begins below the end of our log: it was not asked from there         this broker
EPOCH_FALLS     is of an older epoch than our last record: we were to be cut first   this broker
EPOCH_AHEAD     is of a newer epoch than the leader that we ask (KAFKA-18723)        leader
==============  ===================================================================  ==============

A gap between two batches is none of these: compaction makes them. Batches of an answer are taken up
to the first bad one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import crc32c

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.disk.files import Data
from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header

_CRC_FROM: Final = 21
_SIZE_TO: Final = 12


class Problem(StrEnum):
    """What is wrong with a batch; see the module."""

    CUT_OFF = "is cut off"
    FORMAT = "is no batch"
    CORRUPT = "is corrupt"
    OUT_OF_ORDER = "is out of order"
    OVERLAP = "is in the log already"
    EPOCH_FALLS = "is of an older epoch"
    EPOCH_AHEAD = "is of a later epoch"


_OURS: Final = (Problem.OVERLAP, Problem.EPOCH_FALLS)


class LeaderBatchError(KafkaError):
    """A leader's batch cannot be written. ``offset`` is where it begins, or should begin where its
    header cannot be read; ``problem`` what is wrong; ``of_leader`` whose fault it is."""

    def __init__(self, name: str, offset: int, problem: Problem, why: str) -> None:
        code = "CORRUPT_MESSAGE" if problem not in _OURS else "INVALID_RECORD"
        self.of_leader = problem not in _OURS
        whose = "the leader" if self.of_leader else "this broker"
        what = f"the leader's batch at offset {offset} {problem.value}"
        super().__init__(CODES[code], f"{name}: {what}: {why}; at fault: {whose}")
        self.offset = offset
        self.problem = problem


class Follows(NamedTuple):
    """What a batch has to fit to: the log's ``end`` and its last ``epoch`` (-1: none), the epoch of
    the leader that was asked. Where the log is ``empty``, the first batch may begin before its end,
    since a leader's log may begin inside of a batch (Kafka's UnexpectedAppendOffset)."""

    name: str
    end: int
    epoch: int
    leader_epoch: int
    empty: bool = False


def check_leader_batches(
    data: Data, after: Follows
) -> tuple[list[BatchHeader], LeaderBatchError | None]:
    """The headers of the good batches at the beginning of ``data``, one after the other, and what
    is wrong with the next one; None where all are good."""
    view = memoryview(data)
    headers: list[BatchHeader] = []
    position, size = 0, len(view)
    expected, epoch = after.end, after.epoch
    try:
        while position < size:
            header = _whole_batch(view, position, expected, after.name)
            end = position + header.size
            if crc32c.crc32c(view[position + _CRC_FROM : end]) != header.crc:
                raise LeaderBatchError(
                    after.name,
                    header.base_offset,
                    Problem.CORRUPT,
                    "its CRC does not fit its bytes: the leader's disk, or the way here",
                )
            if header.base_offset < expected or header.partition_leader_epoch != epoch:
                _check_place(header, expected, epoch, after, first=not headers)
                epoch = header.partition_leader_epoch
            headers.append(header)
            position = end
            expected = header.next_offset
    except LeaderBatchError as error:
        return headers, error
    return headers, None


def _whole_batch(view: memoryview, position: int, expected: int, name: str) -> BatchHeader:
    left = len(view) - position
    if left < HEADER_SIZE:
        offset = int.from_bytes(view[position : position + 8]) if left >= _SIZE_TO else expected
        raise LeaderBatchError(name, offset, Problem.CUT_OFF, f"{left} bytes are no whole header")
    try:
        header = read_header(view, position)
    except CorruptRecordError as error:
        raise LeaderBatchError(name, expected, Problem.FORMAT, str(error)) from error
    if header.size > left:
        raise LeaderBatchError(
            name, header.base_offset, Problem.CUT_OFF, f"{left} bytes of {header.size} are there"
        )
    return header


def _check_place(
    header: BatchHeader, expected: int, epoch: int, after: Follows, *, first: bool
) -> None:
    """Raise an error unless the batch may stand behind ``expected``, in an epoch from ``epoch``
    on."""
    base, its_epoch = header.base_offset, header.partition_leader_epoch
    if base < expected and not (first and after.empty and header.last_offset >= expected):
        problem = Problem.OVERLAP if first else Problem.OUT_OF_ORDER
        what = "the log ends" if first else "the batch before it ended"
        raise LeaderBatchError(after.name, base, problem, f"{what} at {expected}")
    if its_epoch < epoch:
        raise LeaderBatchError(
            after.name, base, Problem.EPOCH_FALLS, f"epoch {its_epoch}, the log is in {epoch}"
        )
    if its_epoch > after.leader_epoch:
        raise LeaderBatchError(
            after.name,
            base,
            Problem.EPOCH_AHEAD,
            f"epoch {its_epoch}, the leader's is {after.leader_epoch}",
        )
