"""What a caller may give to ``send()``: said there and then, to the caller alone.

A batch is encoded later and as a whole: a float or a str that got into it would fail the records
of others with its own.
"""

from __future__ import annotations

from collections.abc import Sequence


def check_topic(topic: object) -> None:
    """TypeError for what is no str. One None among the names of topics that are looked for would
    end the search for all."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, not by {type(topic).__name__}")


def check_partition(partition: object) -> None:
    """TypeError for what is no int; whether there is such a partition is another matter."""
    if not isinstance(partition, int):
        raise TypeError(f"a partition is an int, not {type(partition).__name__} ({partition!r})")


def check_on_delivery(on_delivery: object) -> None:
    """TypeError for what cannot be called; it would be found out in another thread, later."""
    if not callable(on_delivery):
        raise TypeError(f"on_delivery is a function of (error, metadata), not {on_delivery!r}")


def check_timestamp(timestamp: object) -> None:
    """TypeError for what is no int (``time.time() * 1000`` is a float), ValueError for one that is
    no time of a record."""
    if not isinstance(timestamp, int):
        raise TypeError(
            f"a timestamp is an int, milliseconds since the epoch, not {type(timestamp).__name__} "
            f"({timestamp!r})"
        )
    if not 0 <= timestamp < 2**63:
        raise ValueError(f"timestamp {timestamp} is not milliseconds since the epoch")


def check_headers(headers: Sequence[object]) -> None:
    """TypeError for what are not (str, bytes or None) pairs."""
    for header in headers:
        match header:
            case (str(), None | bytes() | bytearray() | memoryview()):
                pass
            case _:
                raise TypeError(
                    f"headers are pairs of a name (str) and bytes or None, not {header!r}"
                )
