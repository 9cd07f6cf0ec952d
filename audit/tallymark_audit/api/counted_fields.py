"""The fields of what was counted and reported; see :mod:`.fields`."""

from __future__ import annotations

from typing import Final

from tallymark_audit.api.fields import Field, Fields, flag, listed, number, text, time

CELL: Final[Fields] = {
    "cluster": text("Where it was counted or reported."),
    "topic": text("The topic that the records were sent to."),
    "window": time("The start of the window,"),
    "partition": number("The partition that they were sent to."),
    "server": text("The host of the producer; empty: records without a stamp."),
    "instance": text("The run of the producer (hex)."),
    "tier": text("producer, cluster, consumer or lake."),
    "count": number("Records, each copy counted."),
    "bytes": number("Their bytes."),
    "aborted": listed("Sequences of aborted transactions, as flat ranges."),
    "blocks": listed("Hashes of contents: block, records, hash."),
    "latency": listed("How long they took: a flat sketch of ms."),
    "min_timestamp": time("The earliest time stamp,"),
    "max_timestamp": time("The latest one,"),
    "malformed": number("Records whose stamp makes no sense."),
    "skewed": number("Records stamped far from the clock."),
}
OBSERVED: Final[Fields] = {
    **CELL,
    "seen_topic": text("The topic that they were read from."),
    "seen_partition": number("The partition that they were read from."),
    "ranges": listed("Their sequences, as flat ranges: first, last, first, last."),
    "copies": listed("Further copies: partition, offset, sequence."),
    "fingerprint": text("The sum of their hashes (hex), where there are no ranges."),
    "first_offset": number("Where they begin in the partition; -1: not known."),
    "last_offset": number("Where they end."),
}
CLAIMED: Final[Fields] = {
    **CELL,
    "reporter": text("The run that reports them."),
    "part": number("Which part of the report; of the lake the version of the table."),
    "revision": number("Of the report: the highest counts."),
    "accepted": listed("Sequences that were handed in, as flat ranges."),
    "acknowledged": listed("Sequences that have to be there."),
    "failed": listed("Sequences that were refused."),
    "in_doubt": listed("Sequences of which the result is not known."),
    "filtered": listed("Sequences that were left out on purpose."),
    "expired": listed("Sequences that were deleted before they were passed on."),
    "summary": listed("Numbers in place of ranges: accepted, acknowledged, failed, in doubt, sum."),
    "again": listed("Sequences that were processed once more, by how often."),
    "duplicates": number("How many records were given more than once."),
    "unstamped": number("Records without a stamp."),
    "acks": number("The acks of the producer; -1: all, or not known."),
}
EITHER: Final[Fields] = {**OBSERVED, **CLAIMED}
"""What a cell of either side may have."""
JUDGED_CELL: Final[Fields] = {
    "topic": text("The topic."),
    "partition": number("The partition that the records were sent to."),
    "window": time("The start of the window,"),
    "server": text("The host of the producer; empty: records without a stamp."),
    "instance": text("The run of the producer (hex)."),
    "state": text("The state of the cell; the window has that of its worst."),
    "claimed": number("Messages that have to be there."),
    "observed": number("Claimed messages that are there."),
    "missing": listed("Sequences that are lost, as flat ranges."),
    "missing_count": number("How many are lost; those that cannot be named, too."),
    "pending": listed("Sequences that have not arrived while that is not decided."),
    "pending_count": number("How many have not arrived."),
    "explained": listed("Sequences whose absence has a stated reason."),
    "explained_count": number("How many of the claimed ones these are."),
    "excused_count": number("Refused or in doubt: never claimed, and absent."),
    "explanations": Field("object", "Which of them are absent why, as flat ranges by reason."),
    "duplicates": number("Copies beyond the first of each message."),
    "repeated": listed("Sequences that are there too often, by how often."),
    "copies": listed("Where the copies are: partition, offset, sequence."),
    "unclaimed": listed("Sequences that are there without a claim."),
    "unclaimed_count": number("How many are there without a claim."),
    "corrupt": listed("Blocks with other contents: block 0 is sequences 0 to 1,023."),
    "changed": listed("Their records downstream: partition, offset, sequence."),
    "located": listed("Where the missing ones are upstream: partition, offsets, sequences."),
    "searched": flag("Whether upstream was searched for them: what is not located is not there."),
    "reason": text("Why it has this state."),
}
COLLECTOR: Final[Fields] = {
    "cluster": text("The cluster that it counts."),
    "generation": number("How often the charge has changed hands."),
    "owner": text("Who is in charge."),
    "started_at": time("Since when,"),
    "heartbeat": time("When it last committed,"),
    "discovered_through": time("Up to then it knew every topic that there was,"),
}
SILENT: Final[Fields] = {
    "cluster": text("The cluster."),
    "collector": text("Who was last in charge of it."),
    "why": text("silent: it commits nothing; behind: partitions are not counted; never."),
    "last_commit_ms": time("When it last committed; 0: never,"),
    "counted_through_ms": time("Up to then all its partitions are counted; 0: never,"),
    "partitions": number("How many partitions are not counted up to now."),
}
AGE: Final[Fields] = {
    "ok": flag("Whether the audit is as of now."),
    "judged_through_ms": time("Up to then every cluster was counted; 0: never,"),
    "allowed_ms": number("How long (ms) the audit may be behind."),
    "begun": flag("Whether any cluster was ever counted."),
}
PROGRESS: Final[Fields] = {
    "cluster": text("The cluster."),
    "topic": text("The topic."),
    "partition": number("The partition."),
    "topic_id": text("The id that the cluster gave the topic."),
    "next_offset": number("All before it is counted."),
    "high_watermark": number("Where the log ended when it was read last."),
    "behind": number("Offsets that are not counted yet."),
    "counted_through": time("When all there was had been counted,"),
    "leader_epoch": number("Of the last batch that was read."),
    "generation": number("Which collector wrote it."),
    "open_offset": number("Where the open transaction begins that counting waits for; -1: none."),
    "open_producer": number("Its producer id; -1: not known."),
    "open_since": time("Since when it was seen there; 0: not known,"),
    "open_timeout": number("After how many ms its coordinator ends it; 0: not known."),
}
GROUP: Final[Fields] = {
    "cluster": text("The cluster that the group reads."),
    "group": text("The consumer group."),
    "topic": text("The topic that it reports on."),
    "edge": text("The hop to the group."),
    "runs": number("Runs that ever reported."),
    "working": number("Runs that have not ended."),
    "first_seen": time("The first report,"),
    "last_heard": time("The last report,"),
    "through": time("All stamped before is processed (-1: no watermark yet),"),
    "horizon": time("Up to then the absence of records can be trusted (-1: not known),"),
    "holes": number("Windows below that are not good."),
}
PERCENTILES: Final[Fields] = {
    "cluster": text("Where they were counted; of lateness also the hop to a group."),
    "start": time("The start of the bucket,"),
    "count": number("Messages that were counted in it."),
    "p50": Field("share", "Half of them took at most so long (ms)."),
    "p95": Field("share", "95 % of them took at most so long (ms)."),
    "p99": Field("share", "99 % of them took at most so long (ms)."),
    "greatest": Field("share", "The longest time (ms)."),
}
