"""Looking at the first items of a stream without taking them away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, TypeVar

Item = TypeVar("Item")

MAX_ROWS: Final = 10_000
MAX_CHARACTERS: Final = 16_000_000


def peek(
    items: Iterator[Item | None],
    count: int = MAX_ROWS,
    size: Callable[[Item], int] = lambda _: 0,
    enough: Callable[[Item], bool] = lambda _: True,
) -> tuple[list[Item], Iterator[Item | None]]:
    """The first items, and the whole stream again.

    Ends at ``count`` items or MAX_CHARACTERS by ``size``. A stream that pauses (None) ends the
    sample, too, if it has an item that is ``enough``: a live source must not wait for more.
    """
    sample: list[Item] = []
    characters = 0
    found = False
    for item in items:
        if item is None:
            if found:
                break
            continue
        sample.append(item)
        characters += size(item)
        found = found or enough(item)
        if len(sample) >= count or characters >= MAX_CHARACTERS:
            break
    return sample, chain(sample, items)
