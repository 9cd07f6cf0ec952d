"""What a drill leaves in its folder beside data and logs, so that a failure can be looked into.

``story.txt`` is what it printed, ``outcome.json`` what it found
(:func:`.scoring.report.outcome_to_json`; of a drill that was broken off ``seed``, ``perfect`` and
``problems``). The next drill in the folder keeps both, with all data, if this one was not perfect:
:mod:`.planning.leftovers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallymark.errors import TallymarkError
from tallymark_audit.proof.drill.planning.leftovers import OUTCOME
from tallymark_audit.proof.drill.scoring.report import DrillOutcome, outcome_to_json
from tallymark_audit.proof.harness.narrate import Narrator

STORY: Final = "story.txt"
_BROKEN_OFF: Final = "it was broken off"


@contextmanager
def recorded(folder: Path, seed: int, narrator: Narrator) -> Iterator[list[DrillOutcome]]:
    """While a drill runs in the folder: its story is written down, and at the end its outcome, if
    it is put into the list. An error is written down, and goes on."""
    problem = _BROKEN_OFF
    outcomes: list[DrillOutcome] = []
    _write(folder, {"seed": seed, "perfect": False, "problems": [problem]})
    with narrator.written_to(folder / STORY):
        try:
            yield outcomes
        except TallymarkError as error:
            problem = str(error)
            raise
        finally:
            for outcome in outcomes:
                _write(folder, outcome_to_json(outcome))
            if not outcomes:
                _write(folder, {"seed": seed, "perfect": False, "problems": [problem]})


def _write(folder: Path, outcome: dict[str, Any]) -> None:
    draft = folder / f"{OUTCOME}.draft"
    draft.write_text(json.dumps(outcome, indent=2), encoding="utf-8")
    draft.replace(folder / OUTCOME)
