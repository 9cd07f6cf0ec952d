"""The follower's side of one partition: what it asks its leader next, and what it does with an
answer.

It never talks and never writes: :meth:`Following.ask` returns what to ask, and ``answered``
a step to do. The log's facts (start, end, epochs) are given each time as a :class:`LogView`, so
nothing here can be older than the log. The owner does a step, then asks again; while an ask is
under way or a step is being done there is no other.

An answer is thrown away unless leader epoch, fetch offset and last epoch still are those of the ask
(KAFKA-13266, KAFKA-20634). An error sets this partition aside for a while that grows; the
others of the same fetcher go on (KIP-461).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tallymark.errors import CODES, TABLE
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.truncation import EpochEnd, Epochs, cut_for, last_epoch_of

FIRST_PAUSE_MS: Final = 1_000
"""replica.fetch.backoff.ms"""
LONGEST_PAUSE_MS: Final = 30_000
OUT_OF_RANGE: Final = CODES["OFFSET_OUT_OF_RANGE"]
SOON_PAUSE_MS: Final = 50
SOON: Final = frozenset(
    CODES[name]
    for name in (
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "REPLICA_NOT_AVAILABLE",
    )
)
"""A leader that does not know yet what this broker knows, or the other way round: the producers of
a new leader wait for this."""
FENCED: Final = CODES["FENCED_LEADER_EPOCH"]
UNKNOWN_EPOCH_CODE: Final = CODES["UNKNOWN_LEADER_EPOCH"]


class LogView(NamedTuple):
    """The follower's log now: its first offset, the offset after its last record, and its epochs
    as (epoch, start). ``corrupt_from``: from this offset on the log was found to be corrupt, -1
    where it was not."""

    start: int
    end: int
    epochs: Epochs
    corrupt_from: int = -1


class Ask(NamedTuple):
    """One partition of a fetch: ``offset`` is the end of the follower's log, ``last_epoch`` the
    epoch of its last record (KIP-595), ``high_watermark`` the one that it knows (KIP-1166),
    ``log_start`` its first offset. ``corrupt``: the batch at ``offset`` came corrupt before; the
    leader looks whether its own bytes are."""

    leader: int
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    log_start: int
    corrupt: bool = False


class Answer(NamedTuple):
    """What the leader said. ``first_offset`` is the base offset of the first batch of the records,
    None where there are none. -1 stands for "not sent"."""

    error: int = 0
    parted: EpochEnd | None = None
    high_watermark: int = -1
    log_start: int = -1
    first_offset: int | None = None


# --- steps


class Append(NamedTuple):
    """Append the answer's records as they are, if there are any; then the high watermark is
    ``high_watermark``, or the new end if that is lower, and the log starts at ``log_start`` or
    later. Call :meth:`Following.is_at`."""

    high_watermark: int
    log_start: int


class CutTo(NamedTuple):
    """Remove everything from ``to`` on, its epochs too; then ask again. ``below_high_watermark``:
    records go that were committed (after an unclean election, or by a fault): keep them aside and
    report it with both epochs and offsets."""

    to: int
    below_high_watermark: bool
    why: str


class StartAt(NamedTuple):
    """Remove everything; the log is empty and begins at ``offset``. Then ask again."""

    offset: int
    why: str


class AskRange(NamedTuple):
    """Ask the leader, in the same leader epoch, where its log starts and ends; then call
    :meth:`Following.range_told`."""


class SetAside(NamedTuple):
    """Ask nothing for this partition until ``until_ms``. ``code`` is Kafka's error code."""

    until_ms: int
    code: int
    why: str


class Discard(NamedTuple):
    """Nothing: the answer is of another time. Ask again."""


Step: TypeAlias = Append | CutTo | StartAt | AskRange | SetAside | Discard


@dataclass(slots=True)
class Following:
    """A partition that follows broker ``leader`` in ``leader_epoch``. One object for each leader
    epoch; ``high_watermark`` is the one known when it began, never above the log's end."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    high_watermark: int
    pause_until_ms: int = 0
    failures: int = 0
    """In a row."""
    first_pause_ms: int = FIRST_PAUSE_MS
    corrupt_at: int = -1
    """The end of the log when the leader's next batch was corrupt, -1 for never."""

    def begin(self, log: LogView, *, is_member: bool = False) -> CutTo | None:
        """The first step. An epoch that began at the very end of the log, led by this broker
        without a record, is the new leader's to fill: it goes before anything is appended, or
        records of an older epoch would stand under its name (KAFKA-15608). A broker that found its
        own log corrupt, and gave up the lead and its place in the ISR for that, copies it from
        there again. A member (``is_member``) keeps it: it may be elected, and would lack what is
        committed behind the corrupt batch."""
        if not is_member and log.start <= log.corrupt_from < log.end:
            why = f"the batch at offset {log.corrupt_from} is corrupt on this disk"
            return CutTo(log.corrupt_from, log.corrupt_from < self.high_watermark, why)
        if not log.epochs or log.epochs[-1][1] < log.end:
            return None
        return CutTo(log.end, False, f"epoch {log.epochs[-1][0]} has no record")

    def ask(self, log: LogView, now_ms: int) -> Ask | None:
        """The next ask; None while the partition is set aside."""
        if now_ms < self.pause_until_ms:
            return None
        return self._ask(log)

    def is_current(self, ask: Ask, log: LogView) -> bool:
        """An answer to ``ask`` may be used: the same leader epoch, and the log is what it was. Its
        end alone does not show that: it may have been cut and have grown to that end again."""
        now = (self.leader_epoch, log.end, last_epoch_of(log.epochs, log.end))
        return (ask.leader_epoch, ask.offset, ask.last_epoch) == now

    def answered(self, ask: Ask, answer: Answer, log: LogView, now_ms: int) -> Step:
        """What follows from the leader's answer to ``ask``; ``log`` is the log as it is now."""
        if not self.is_current(ask, log):
            return Discard()
        if answer.error == OUT_OF_RANGE:
            return self._out_of_range(answer, log)
        if answer.error == CODES["CORRUPT_MESSAGE"]:
            self.corrupt_at = log.end
        if answer.error:
            return self.failed(answer.error, self._explain(answer.error), now_ms)
        if answer.parted is not None:
            return self._cut(answer.parted, log, now_ms)
        first = answer.first_offset
        if first is not None and first < log.end and log.start < log.end:
            self.corrupt_at = log.end
            why = f"broker {self.leader} sent a batch at {first}, the log ends at {log.end}"
            return self.failed(CODES["CORRUPT_MESSAGE"], why, now_ms)
        # A first batch that begins before an empty log: the leader's log starts inside of it
        # (DeleteRecords). The log takes the whole batch and starts where it did.
        return Append(answer.high_watermark, answer.log_start)

    def is_at(self, log: LogView, leader_high_watermark: int) -> None:
        """A step is done and the log is ``log``; the leader's high watermark came with it (-1
        for none). Its own never falls in an epoch, but for a cut below it."""
        self.failures = 0
        self.high_watermark = min(max(leader_high_watermark, self.high_watermark), log.end)

    def range_told(
        self, ask: Ask, leader_start: int, leader_end: int, log: LogView, now_ms: int
    ) -> Step:
        """The leader's log is from ``leader_start`` to ``leader_end``, which ``ask`` was out of."""
        if not self.is_current(ask, log):
            return Discard()
        if leader_start > log.end or (log.start == log.end and leader_end < log.end):
            why = f"broker {self.leader} has its log from {leader_start} to {leader_end}"
            return StartAt(leader_start, why)
        if leader_end < log.end:
            why = f"the log of broker {self.leader} ends at {leader_end}"
            return CutTo(leader_end, leader_end < self.high_watermark, why)
        return self.failed(OUT_OF_RANGE, "the leader refused an offset that it has", now_ms)

    def corrupt(self, offset: int, log_end: int, why: str, now_ms: int) -> SetAside:
        """A batch of the leader cannot be appended: its checksum or its shape is wrong. The next
        ask from this end names it, and the leader finds out whether its disk or the way here is
        bad."""
        self.corrupt_at = log_end
        told = f"batch at offset {offset} from broker {self.leader} in epoch {self.leader_epoch}"
        return self.failed(CODES["CORRUPT_MESSAGE"], f"{told}: {why}", now_ms)

    def failed(self, code: int, why: str, now_ms: int) -> SetAside:
        """Something went wrong with this partition, here or at the leader: it waits 1 s
        (``first_pause_ms``), and twice as long after each further failure until a step is done, at
        most 30 s. What ends with a change of the leader (:data:`SOON`) is asked again after 50 ms,
        and at least every second."""
        first, longest = self.first_pause_ms, LONGEST_PAUSE_MS
        if code in SOON:
            first, longest = min(SOON_PAUSE_MS, first), first
        pause = min(first << min(self.failures, 10), longest)
        self.failures += 1
        self.pause_until_ms = now_ms + pause
        return SetAside(self.pause_until_ms, code, why)

    def _ask(self, log: LogView) -> Ask:
        return Ask(
            self.leader,
            self.leader_epoch,
            log.end,
            last_epoch_of(log.epochs, log.end),
            self.high_watermark,
            log.start,
            log.end == self.corrupt_at,
        )

    def _cut(self, parted: EpochEnd, log: LogView, now_ms: int) -> Step:
        cut = cut_for(parted, log.epochs, log.end, self.high_watermark)
        why = (
            f"epoch {parted.epoch} of broker {self.leader} ends at {parted.end}; here the log ends "
            f"at {log.end} in epoch {last_epoch_of(log.epochs, log.end)}"
        )
        to = max(cut.to, log.start)
        if to >= log.end:
            return self.failed(OUT_OF_RANGE, f"nothing is left to cut: {why}", now_ms)
        return CutTo(to, to < self.high_watermark, why)

    def _out_of_range(self, answer: Answer, log: LogView) -> Step:
        if answer.log_start > log.end:
            return StartAt(answer.log_start, f"the log of broker {self.leader} starts there")
        return AskRange()

    def _explain(self, code: int) -> str:
        row = TABLE.get(code)
        told = row.name if row else f"error {code}"
        if code == FENCED:
            return f"{told}: epoch {self.leader_epoch} is over, the new state is on its way"
        if code == UNKNOWN_EPOCH_CODE:
            return f"{told}: broker {self.leader} does not know epoch {self.leader_epoch} yet"
        return f"{told} from broker {self.leader}"
