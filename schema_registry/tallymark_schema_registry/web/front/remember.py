"""What a route says about its answer: that the same request may get the same bytes again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from starlette.requests import Request

from tallymark_schema_registry.web.front.tags import Tag

_KEY: Final = "remember"
"""In the state of a request, which the protocol sees too."""


class Remember(NamedTuple):
    """``tags``: what the answer depends on; a change that touches one of them makes it void.
    ``lasting``: only this can change it, so that it is given without asking the store whether
    another process has changed something."""

    tags: tuple[Tag, ...]
    lasting: bool


def remember(request: Request, tags: Iterable[Tag], *, lasting: bool = False) -> None:
    """The answer to ``request`` may be remembered. A route calls this when it has succeeded: errors
    are never remembered, nor is what is not there."""
    setattr(request.state, _KEY, Remember(tuple(tags), lasting))


def remembered_as(state: dict[str, object]) -> Remember | None:
    """What the route said; None where it said nothing."""
    said = state.get(_KEY)
    return said if isinstance(said, Remember) else None
