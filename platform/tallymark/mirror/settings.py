"""Finds the mirrors in the settings by the names of their clusters."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.deployment import Deployment, Mirror
from tallymark.errors import UserError


def find_mirror(deployment: Deployment, source: str, target: str) -> Mirror:
    """The mirror from ``source`` to ``target``. UserError: there is none; it names those that
    exist."""
    for mirror in deployment.mirrors:
        if (mirror.source, mirror.target) == (source, target):
            return mirror
    known = ", ".join(f"{one.source} to {one.target}" for one in deployment.mirrors) or "none"
    raise UserError(f"the settings have no mirror from {source} to {target}", f"there is: {known}")


def find_mirrors(deployment: Deployment, sources: Sequence[str], target: str) -> list[Mirror]:
    """The mirrors from ``sources`` (default: from all) to ``target``. UserError as above."""
    wanted = sources or [one.source for one in deployment.mirrors if one.target == target]
    if not wanted:
        return [find_mirror(deployment, "any cluster", target)]
    return [find_mirror(deployment, source, target) for source in dict.fromkeys(wanted)]
