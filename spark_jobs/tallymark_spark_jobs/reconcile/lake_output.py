"""The verdicts as rows of the lake's table, for those who read the lake and not the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_spark_jobs.reconcile.ledger import LATER
from tallymark_spark_jobs.reconcile.outcome import Outcome, cell_json

_SUMS: Final = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")


def write_to_lake(deployment: Deployment, outcome: Outcome, started_at: int) -> str:
    """Write the verdicts into the lake, where there is one. What went wrong, for people; "" if
    nothing did: the store has the verdicts all the same."""
    if deployment.lake is None:
        return ""
    from tallymark_spark_jobs.lake.opening import Lake
    from tallymark_spark_jobs.lake.verdicts import write_verdicts

    try:
        lake = Lake(deployment.lake_path, deployment.lake.format)
        write_verdicts(lake, rows_of(outcome), run=f"reconcile-{started_at}")
    except (UserError, OSError) as error:
        return f"the lake has no verdicts of this run: {error}"
    return ""


def rows_of(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """A row a window that is decided; times in ms."""
    for verdict in outcome.verdicts:
        if verdict.state not in LATER:
            yield {
                "edge": verdict.edge,
                "topic": verdict.topic,
                "window": verdict.window,
                "state": str(verdict.state),
                "as_of": outcome.looked_at(verdict),
                **{name: getattr(verdict, name) for name in _SUMS},
                "reasons": list(verdict.reasons),
                "cells": json.dumps([cell_json(cell, outcome.places) for cell in verdict.cells]),
            }
