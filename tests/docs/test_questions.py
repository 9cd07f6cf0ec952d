"""The files that answer a newcomer's questions are where docs/questions.md says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/questions.md").read_text()
ROW = re.compile(r"(?m)^\| (.+?\?) \| `([\w/]+)` \| `(\w+\.py)` \| `(\w+)` \|$")
PACKAGES = {
    "platform": "platform/tallymark",
    "audit": "audit/tallymark_audit",
    "schema_registry": "schema_registry/tallymark_schema_registry",
    "spark_jobs": "spark_jobs/tallymark_spark_jobs",
    "dashboards": "dashboards/tallymark_dashboards",
}


def test_every_question_leads_to_a_file_that_has_the_name() -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) >= 20
    assert len(rows) == PAGE.count("? | `"), "a row has another form"
    wrong = [
        f"{room}/{file}: {name}"
        for _, room, file, name in rows
        if not re.search(rf"\b{name}\b", _text(room, file))
    ]
    assert wrong == []


def _text(room: str, file: str) -> str:
    top, _, below = room.partition("/")
    path = ROOT / PACKAGES[top] / below / file
    return path.read_text() if path.is_file() else ""
