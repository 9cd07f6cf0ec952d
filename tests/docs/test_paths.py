"""Files that the architecture names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
ROOTS = (
    "",
    "platform/tallymark",
    "audit/tallymark_audit",
    "schema_registry/tallymark_schema_registry",
    "spark_jobs/tallymark_spark_jobs",
)
ROW = re.compile(r"^\| (?:`([\w/]+)`)? ?\| (.*?) \|", re.MULTILINE)


def listed() -> list[tuple[str, str]]:
    """(room, file) of the table of the platform's files; a row without a room is of the last."""
    table = PAGE.split("`platform/tallymark/`:", 1)[1].split("`audit/tallymark_audit/`:", 1)[0]
    room, found = "", list[tuple[str, str]]()
    for named, cell in ROW.findall(table):
        room = named or room
        found += [(room, name) for name in re.findall(r"`([\w/*]+(?:\.py|/))`", cell)]
    return found


def test_every_file_of_the_map_is_in_its_room() -> None:
    """The map named the client's files as they were called before it was split into rooms."""
    files = listed()
    assert len(files) > 200
    folder = ROOT / "platform/tallymark"
    missing = [
        f"{room}/{name}"
        for room, name in files
        if room and not [*(folder / room).glob(name.replace("NN", "[0-9][0-9]"))]
    ]
    assert missing == []


def test_every_path_that_is_walked_is_there() -> None:
    text = PAGE.split("## The walked paths", 1)[1].split("\n## ", 1)[0]
    paths = set(re.findall(r"`([\w./-]+/[\w.-]+\.py)`", text))
    assert len(paths) > 80
    missing = [path for path in paths if not any((ROOT / top / path).exists() for top in ROOTS)]
    assert sorted(missing) == []
