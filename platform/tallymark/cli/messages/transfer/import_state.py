"""How far an import has come, in a small file beside the exported one.

::

    FILE.TOPIC.importing      {"plan": ..., "topic_id": "...", "done": {"0": 1000}}

``done``: of each partition of the file so many records, from its first on, are acknowledged. It is
replaced as a whole, about once a second, and removed when all is done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tallymark.cli.messages.transfer.plan import Counts, Plan, one_line
from tallymark.errors import UserError


class ImportState:
    """The state of importing the file of ``plan`` into a topic."""

    def __init__(self, file: Path, plan: Plan, topic: str, topic_id: str) -> None:
        self.path = file.with_name(f"{file.name}.{topic}.importing")
        self._same = {"plan": plan.document(), "topic_id": topic_id}

    def load(self) -> Counts:
        """What an earlier run has done. UserError when there was none, or it was about another
        file or topic."""
        try:
            document = json.loads(self.path.read_text())
            done = {int(number): int(count) for number, count in document.pop("done").items()}
        except FileNotFoundError:
            raise UserError(
                f"there is no {self.path} to go on with", "leave out --resume"
            ) from None
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(f"{self.path} cannot be read: {error}", "remove it") from None
        if document != self._same:
            raise UserError(
                f"{self.path} is about another export or another topic of that name",
                "remove it to begin anew",
            )
        return done

    def store(self, done: Mapping[int, int]) -> None:
        """Replace it."""
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_bytes(one_line({**self._same, "done": {str(n): c for n, c in done.items()}}))
        os.replace(fresh, self.path)

    def remove(self) -> None:
        """All is done."""
        self.path.unlink(missing_ok=True)
