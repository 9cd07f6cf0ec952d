"""The inner loop: ``make fast ROOM=log`` checks one room in seconds.

Formatting and lint of the room and of its tests, the contracts between rooms, and the room's tests
without those that start processes or Spark, open sockets, or were slow here (over 0.3 s).
``ROOM`` is a folder below tests/: ``log``, ``audit/drill``. The gate is ``make check`` and
``make test``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
BIN: Final = Path(sys.executable).parent
NO_ROOMS: Final = {"support", "soak", "java", "__pycache__"}
LEFT_OUT: Final = "not soak and not process and not spark and not apache_kafka and not socket"
PACKAGES: Final = (
    "platform/tallymark",
    "audit/tallymark_audit",
    "schema_registry/tallymark_schema_registry",
    "spark_jobs/tallymark_spark_jobs",
    "dashboards/tallymark_dashboards",
)


def main(arguments: list[str]) -> int:
    """Exit code 0 if all is well, 1 if not, 2 with the list of rooms if there is no such room."""
    rooms = sorted(_rooms())
    room = arguments[0].strip("/") if arguments else ""
    if room not in rooms:
        problem = f"There are no tests of a room {room!r}." if room else "Which room?"
        print(f"{problem} make fast ROOM=...\n" + "\n".join(_columns(rooms)))
        return 2
    start = time.monotonic()
    folders = [f"tests/{room}", *_sources(room)]
    checks = [
        _started("ruff", "format", "--check", *folders),
        _started("ruff", "check", "--output-format", "concise", *folders),
        _started("lint-imports", "--no-logo"),
    ]
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--without-slow", "-m", LEFT_OUT, f"tests/{room}"],
        cwd=ROOT,
        env={**os.environ, "HYPOTHESIS_PROFILE": "fast"},
    )
    failed = tests.returncode not in (0, 5)  # 5: nothing is left of the room's tests
    for check in checks:
        output = check.communicate()[0]
        if check.returncode:
            failed = True
            print(output, end="")
    print(
        f"make fast ROOM={room}: {'failed' if failed else 'well'}, {time.monotonic() - start:.1f} s"
    )
    return int(failed)


def _rooms() -> Iterator[str]:
    """Every folder below tests/ that holds tests, by its path."""
    for folder in TESTS.rglob("*/"):
        room = folder.relative_to(TESTS)
        if not NO_ROOMS & set(room.parts) and any(folder.rglob("test_*.py")):
            yield str(room)


def _sources(room: str) -> Iterator[str]:
    """The folders of the packages that the tests of a room are about."""
    for package in PACKAGES:
        top = package.partition("/")[0]
        below = room.removeprefix(top).strip("/")
        inside = room == top or room.startswith(f"{top}/")
        folder = f"{package}/{below if inside else room}".rstrip("/")
        if (inside or top == "platform") and (ROOT / folder).is_dir():
            yield folder


def _started(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BIN / command[0], *command[1:]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _columns(rooms: list[str]) -> Iterator[str]:
    width = max(map(len, rooms)) + 2
    for at in range(0, len(rooms), 4):
        yield "  " + "".join(room.ljust(width) for room in rooms[at : at + 4])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
