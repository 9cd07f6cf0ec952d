"""Runs when a wheel is built: the front-end libraries of the dashboards must be in it.

They are not in the repository; ``deploy/vendor`` fetches them by npm, from a pinned manifest. A
wheel without them would install and work, but its pages would reload instead of updating in place.
So the build brings them, or fails and says what it lacks.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = ("htmx.min.js", "sse.min.js")
FOLDER = "dashboards/tallymark_dashboards/static/vendor"


class FrontEndLibraries(BuildHookInterface):  # type: ignore[type-arg]
    """Fetches what is missing before the wheel is packed. An editable install takes none: there
    ``make`` fetches them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises RuntimeError, which ends the build, when the libraries cannot be had."""
        if version == "editable" or not missing(Path(self.root)):
            return
        said = subprocess.run(
            ["sh", "deploy/vendor"], cwd=self.root, capture_output=True, text=True, check=False
        )
        lacking = missing(Path(self.root))
        if lacking:
            why = (said.stderr or said.stdout).strip().splitlines()
            raise RuntimeError(
                f"the wheel would lack {', '.join(lacking)} in {FOLDER}"
                f" ({why[-1] if why else 'deploy/vendor brought nothing'});"
                " install npm (Node.js) and build again, or run deploy/vendor where there is one"
                " and copy that folder here"
            )


def missing(root: Path) -> list[str]:
    """The libraries that are not in the folder that the wheel takes them from."""
    return [name for name in LIBRARIES if not (root / FOLDER / name).is_file()]
