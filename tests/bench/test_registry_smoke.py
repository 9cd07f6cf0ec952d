"""bench/registry.py from end to end, with few schemas: it starts its servers, its clients are
answered, and the tables have a row for each kind of request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.mark.soak
def test_a_small_run(tmp_path: Path) -> None:
    """Its two client processes ran one after the other, and the connections of the second one were
    closed meanwhile."""
    numbers = tmp_path / "numbers.json"
    ended = subprocess.run(
        [
            *(sys.executable, str(ROOT / "bench" / "registry.py"), "--only", "reads,writes"),
            *("--schemas", "64", "--seconds", "0.2", "--json", str(numbers)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(numbers.read_text())
    measured = {(each["what"], each["connections"]) for each in found["results"]}
    kinds = {"control", "bare protocol", "new, SQLite", "by id", "known registration"}
    assert measured == {(kind, n) for kind in kinds | {"look-up", "latest"} for n in (1, 32)}
    assert all(each["per_s"] > 0 for each in found["results"])
    assert "| by id " in ended.stdout
