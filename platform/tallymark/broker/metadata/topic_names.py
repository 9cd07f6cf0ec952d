"""Names that topics of one cluster cannot have beside each other. Pure."""

from __future__ import annotations

from tallymark.broker.metadata.image import MetadataImage
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC


def check_collision(name: str, image: MetadataImage) -> None:
    """Raise INVALID_TOPIC_EXCEPTION where the name of a new topic differs from that of another one
    in ``.`` and ``_`` only: what watches a cluster often writes ``_`` for both. The name of the
    brokers' own topic is kept free: without that topic no group could commit offsets."""
    plain = name.replace(".", "_")
    other = OFFSETS_TOPIC if plain == OFFSETS_TOPIC else image.names_for_metrics.get(plain)
    if other is not None and other != name:
        raise KafkaError(
            CODES["INVALID_TOPIC_EXCEPTION"], f"{name} collides with the topic {other}"
        )
