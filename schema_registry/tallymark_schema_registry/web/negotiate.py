"""Content types: what a body may be sent as, and what an answer is sent as."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

V1: Final = "application/vnd.schemaregistry.v1+json"
OFFERED: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
"""Best first: what is chosen among those the client wants equally."""

# octet-stream is what some clients send when they mean to say nothing.
_ACCEPTED: Final = frozenset((*OFFERED, "application/octet-stream", ""))


def body_type_is_fine(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() in _ACCEPTED


@lru_cache(maxsize=256)
def answer_type(accept: str) -> str | None:
    """The content type for an Accept header, None if it takes none of ours (406)."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    if not ranges:
        return V1
    best = max(OFFERED, key=lambda offer: _quality(offer, ranges))
    return best if _quality(best, ranges) > 0 else None


def _range(part: str) -> tuple[str, float]:
    """One media range with its weight; a weight that is no number counts as 1."""
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    if name.startswith("*/"):
        name = "*/*"  # "*/json" is no media range; a client that sends it takes anything
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 1.0
    return name, 1.0


def _quality(offer: str, ranges: list[tuple[str, float]]) -> float:
    """The most specific range that covers the offer decides."""
    weights = dict(ranges)
    for name in (offer, "application/*", "*/*"):
        if name in weights:
            return weights[name]
    return 0.0
