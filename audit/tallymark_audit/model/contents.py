"""The content check: hash a run of records block by block."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.schema import Buffer
from tallymark_audit.model.cells import Block
from tallymark_audit.model.hashing import BLOCK, content_sums

Payloads = Sequence[Buffer | None]


def blocks_of(first: int, keys: Payloads | None, values: Payloads) -> tuple[Block, ...]:
    """The blocks of records with the sequences ``first``, ``first + 1`` ..., each the sum of
    :func:`tallymark_audit.model.hashing.content` of its records. ``keys`` None: none has one.
    """
    if not values:
        return ()
    numbers = range(first // BLOCK, (first + len(values) - 1) // BLOCK + 1)
    starts = [max(0, number * BLOCK - first) for number in numbers]
    ends = [*starts[1:], len(values)]
    sums = content_sums(first, keys, values, starts)
    return tuple(
        Block(number, end - start, hashes)
        for number, start, end, hashes in zip(numbers, starts, ends, sums, strict=True)
    )
