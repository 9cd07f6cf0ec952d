"""The kinds of faults, and a proxy's orders: which of them, from when to when, how often."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tallymark_audit.model.edges import AUDIT_TOPIC

DROP: Final = "drop"
"""Records vanish; the sender gets an acknowledgement."""
DROP_BATCH: Final = "drop-batch"
"""Whole batches vanish."""
DUPLICATE: Final = "duplicate"
"""Records are appended twice, in their batch."""
DUPLICATE_BATCH: Final = "duplicate-batch"
"""A request is sent to the broker twice."""
CORRUPT: Final = "corrupt"
"""Values are changed, with a right CRC."""
LOST_ACK: Final = "lost-ack"
"""A request is passed on, and the connection ends before the answer: the sender tries again."""
DELAY: Final = "delay"
"""A request, and all behind it on its connection, comes late."""
REORDER: Final = "reorder"
"""Two batches of a connection to one partition change places."""
DROP_EVENTS: Final = "drop-events"
"""Monitoring events vanish; their sender gets an acknowledgement."""

FLIP_EVENTS: Final = "flip-events"
"""One bit of a monitoring event is turned, with a right CRC of its batch."""

DROP_FETCHED: Final = "drop-fetched"
"""Records vanish between the broker and a consumer, which sees a hole as after compaction."""

TORN_TAIL: Final = "torn-tail"
"""A broker is killed and the end of a segment that was not flushed is cut."""
CUT_OUT: Final = "cut-out"
"""A broker is killed and records in the middle of a segment vanish before they were counted."""

RECREATE_TOPIC: Final = "recreate-topic"
"""A topic is deleted and made again under its producer and its mirror."""
SHRINK_TOPIC: Final = "shrink-topic"
"""The same, and the new topic has half of the partitions."""
KILL_CONSUMER: Final = "kill-consumer"
"""A member of a group is killed with messages that it has processed and not reported."""
LOST_CONSUMER: Final = "lost-consumer"
"""The same, and its journal is gone with its host."""
CHANGED_AT_REST: Final = "changed-at-rest"
"""Values in a closed segment change after they were counted, with a right CRC."""
RESTAMPED_AT_REST: Final = "restamped-at-rest"
"""Stamps in a closed segment change after they were counted, with a right CRC."""
LOST_SEGMENT: Final = "lost-segment"
"""A closed segment is gone after it was counted; the scrub is to find it."""
LOSS_FOR_SPARK: Final = "loss-for-spark"
"""The same, and Spark is to find it."""
BROKEN_CRC: Final = "broken-crc"
"""One batch of a closed segment has a wrong CRC before it was counted."""

KILL_LEADER: Final = "kill-leader"
"""The leader of the main topic is killed, and comes back once another broker leads."""
LOST_IN_FAILOVER: Final = "lost-in-failover"
"""A leader is killed with records that were acknowledged (acks=1) and that no follower has."""
UNCLEAN_ELECTION: Final = "unclean-election"
"""A broker that lacks acknowledged records is elected, and the others cut them."""

TRANSACTIONS: Final = "transactions"
"""A transactional producer aborts every third transaction; another one takes its id, and the
coordinator is killed between the decision and the markers."""

LAKE_ROWS_GONE: Final = "lake-rows-gone"
"""Rows vanish from a file of the lake after the load."""
LAKE_ROWS_TWICE: Final = "lake-rows-twice"
"""Rows are in a file of the lake a second time after the load."""
LAKE_FILE_LOST: Final = "lake-file-lost"
"""A file of the lake is gone after the load."""

TOPIC_FAULTS: Final = (RECREATE_TOPIC, SHRINK_TOPIC)
SCRUBBED_FAULTS: Final = (CHANGED_AT_REST, RESTAMPED_AT_REST, LOST_SEGMENT)
REMOVED_AT_REST: Final = (LOST_SEGMENT, LOSS_FOR_SPARK)
"""They remove messages from the disk, second copies among them."""
REST_FAULTS: Final = (*SCRUBBED_FAULTS, LOSS_FOR_SPARK, BROKEN_CRC)
CONSUMER_KILLS: Final = (KILL_CONSUMER, LOST_CONSUMER)
LAKE_FAULTS: Final = (LAKE_ROWS_GONE, LAKE_ROWS_TWICE, LAKE_FILE_LOST)
"""They need a lake, which is an extra of the package: no seed draws them, so they are named."""
DRAWN_FAULTS: Final = (
    RECREATE_TOPIC,
    SHRINK_TOPIC,
    KILL_CONSUMER,
    LOST_CONSUMER,
    CHANGED_AT_REST,
    RESTAMPED_AT_REST,
    LOST_SEGMENT,
    BROKEN_CRC,
    FLIP_EVENTS,
    LOSS_FOR_SPARK,
)
"""Those of :data:`SIDE_FAULTS` that a seed may draw."""
FAILOVER_FAULTS: Final = (LOST_IN_FAILOVER, UNCLEAN_ELECTION)
REPLICA_FAULTS: Final = (KILL_LEADER, *FAILOVER_FAULTS)
"""They need several replicas, so clusters of three brokers."""
ONE_COPY_FAULTS: Final = (TORN_TAIL, CUT_OUT, *REST_FAULTS)
"""They damage a log of a broker, which readers get where there is no other copy of it."""
SIDE_FAULTS: Final = (*DRAWN_FAULTS, *LAKE_FAULTS, *FAILOVER_FAULTS, TRANSACTIONS)
"""What happens beside the main traffic: most of it to a topic of its own, named like the fault."""

WIRE_FAULTS: Final = (
    DROP,
    DROP_BATCH,
    DUPLICATE,
    DUPLICATE_BATCH,
    CORRUPT,
    LOST_ACK,
    DELAY,
    REORDER,
    DROP_EVENTS,
    FLIP_EVENTS,
    DROP_FETCHED,
)


@dataclass(frozen=True, slots=True)
class Order:
    """``kind`` from ``start`` to ``end`` (ms): ``rate`` is the share of records (drop, duplicate,
    corrupt, flip-events), batches (drop-batch, drop-events) or requests (the others) that it hits.
    ``most``: so many hits at most. ``seconds``: how long a delay is."""

    kind: str
    start: int
    end: int
    rate: float = 1.0
    most: int = 1_000_000_000
    seconds: float = 0.0

    def holds(self, now: int) -> bool:
        return self.start <= now < self.end


def concerns(kind: str, topic: str) -> bool:
    """Whether a fault of this kind may hit the topic: monitoring events are a matter apart, other
    internal topics (what mirrors remember) are left alone, and so is a topic to which a fault of
    its own happens."""
    if kind in (DROP_EVENTS, FLIP_EVENTS):
        return topic == AUDIT_TOPIC
    if kind == DROP_FETCHED:
        return False
    return not topic.startswith("_") and topic not in SIDE_FAULTS


def write_orders(path: Path, orders: Sequence[Order]) -> None:
    """Give the proxy its orders, at once: it sees the old ones or the new ones."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([asdict(order) for order in orders]), encoding="utf-8")
    draft.replace(path)


def read_orders(path: Path) -> list[Order]:
    """The orders; none where there is no file."""
    try:
        raw: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [Order(**one) for one in raw]
