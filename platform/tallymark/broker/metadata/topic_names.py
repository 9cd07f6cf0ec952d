"""Checks that the name of a new topic does not collide with another topic's. Pure."""

from __future__ import annotations

from tallymark.broker.metadata.image import MetadataImage
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import STATE_TOPICS


def check_collision(name: str, image: MetadataImage) -> None:
    """Raise INVALID_TOPIC_EXCEPTION where the name of a new topic differs from that of another one
    in ``.`` and ``_`` only: metrics systems often write ``_`` for both. The name of the brokers'
    own topics are reserved, too: without them no group could commit offsets."""
    plain = name.replace(".", "_")
    other = plain if plain in STATE_TOPICS else image.names_for_metrics.get(plain)
    if other is not None and other != name:
        raise KafkaError(
            CODES["INVALID_TOPIC_EXCEPTION"],
            f"{name} collides with the topic {other}: for metrics . and _ are the same",
        )
