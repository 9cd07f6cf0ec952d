"""A batch of one partition on its way: records, their futures, and what the sender knows of it."""

from __future__ import annotations

from typing import TypeAlias

from tallymark.client.delivery import Delivery, OnDelivery
from tallymark.client.interceptors import BatchTally
from tallymark.protocol.records import BatchBuilder

Identity: TypeAlias = tuple[int, int]
"""Producer id and epoch."""

NO_IDENTITY: Identity = (-1, -1)


class ProducerBatch:
    """Records that leave together. The sending half touches it only once it is sealed.

    ``created`` and ``deadline`` are seconds of the monotonic clock; ``reserved`` the bytes it
    holds of the producer's buffer.
    """

    __slots__ = (
        "ambiguous",
        "base_sequence",
        "builder",
        "callbacks",
        "created",
        "deadline",
        "deliveries",
        "first_stamp",
        "identity",
        "oldest",
        "order",
        "partition",
        "payload",
        "reports",
        "reserved",
        "settled",
        "size",
        "stamped",
        "tally",
        "timestamps",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, stamped: bool, created: float, deadline: float
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.stamped = stamped
        self.created = created
        self.deadline = deadline
        self.reserved = 0
        self.builder = BatchBuilder()
        self.size = 0
        self.deliveries: list[Delivery] = []
        self.callbacks: dict[int, OnDelivery] = {}
        """Index of the record -> what to call; most records have none."""
        self.timestamps: list[int] = []
        self.oldest = 2**63
        """Smallest of them."""
        self.payload = 0
        """Sum of the lengths of keys and values."""
        self.reports = 0
        """How many of the records are interceptors' own: nobody flushes or closes for them."""
        self.first_stamp = -1
        """Sequence in the stamp of the first record; -1 when the batch is not stamped."""
        self.tally: BatchTally | None = None
        self.order = -1
        """Place among the batches of its partition."""
        self.identity = NO_IDENTITY
        self.base_sequence = -1
        self.ambiguous = False
        """Whether bytes of it have left and no answer has said what became of them."""
        self.settled = False

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.timestamps)

    @property
    def user_records(self) -> int:
        """Number of records that came through send()."""
        return len(self.timestamps) - self.reports

    def describe(self) -> str:
        """For error texts."""
        records = "1 record" if self.count == 1 else f"{self.count} records"
        return f"{records} for {self.topic}-{self.partition}"

    def encode(self, compression: str) -> bytes:
        """The record batch as it goes out now, under its present identity and sequence."""
        producer_id, epoch = self.identity
        return self.builder.build(
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.base_sequence,
        )
