"""What a consumer is to consume, and the range division both kinds of group share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

from tallymark.protocol.topic_partition import TopicPartition

T = TypeVar("T")
Assignment: TypeAlias = Mapping[TopicPartition, int]
"""What one consumer consumes: (topic, partition) -> number of the stream among its own."""


def split_range(items: Sequence[T], shares: int) -> list[Sequence[T]]:
    """``items`` in ``shares`` runs, in order, as even as can be: the first ones take the
    remainder. Five items for two: three and two; one item for four: one, none, none, none."""
    size, remainder = divmod(len(items), shares)
    bounds = [index * size + min(index, remainder) for index in range(shares + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]
