"""The notebook of the docs runs from the first cell to the last, on a small store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judged_world import heartbeats, publisher, steady, world_in
from memory_lake import MemoryLake

from tallymark.deployment import LakeSettings

NOTEBOOK = Path(__file__).parents[3] / "docs" / "audit-frames.ipynb"
NOON = 1_769_860_800_000
"""2026-01-31, 12:00 UTC."""


def store_in(folder: Path) -> None:
    """Settings and a store in which a load has lost three rows."""
    with world_in(folder, lake=LakeSettings(overdue_ms=600_000)) as world:
        world.now = NOON
        one, two = publisher(world, "dc1", b"a"), publisher(world, "dc2", b"b")
        table = MemoryLake(world.clusters["aggregate"], 1000)
        steady(world, one, two)
        table.report(table.load(world.now, lose={12, 13, 40}), world.now)
        heartbeats(world, one, two)


def test_the_notebook_is_kept_without_outputs() -> None:
    """What a run printed is of that run, and makes every change of it a large one."""
    raw = json.loads(NOTEBOOK.read_text())
    assert all(not cell["outputs"] for cell in raw["cells"] if cell["cell_type"] == "code")


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.timeout(180)
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("ipykernel")
    nbclient: Any = pytest.importorskip("nbclient")  # two seconds: not at each collection
    nbformat: Any = pytest.importorskip("nbformat")
    store_in(tmp_path)
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(tmp_path / "tallymark.toml"))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output["data"]["text/plain"]
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    assert any("LOSS" in text and "aggregate-to-lake" in text for text in shown)
    assert any("2-3" in text for text in shown)
    assert len(shown) == 8
