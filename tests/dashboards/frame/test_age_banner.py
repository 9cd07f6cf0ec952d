"""The lines above every page while the audit is behind."""

from __future__ import annotations

from pathlib import Path

from tallymark.deployment import Deployment
from tallymark_audit.store import open_store
from tallymark_audit.store.reading.age import AuditAge, SilentCollector
from tallymark_dashboards.frame.context import Context


def banner(folder: Path, *behind: SilentCollector) -> str:
    store = open_store(f"sqlite:///{folder}/audit.db")
    try:
        templates = Context.of(Deployment(data_dir=folder), store).templates
        macros = templates.get_template("parts/age.html").module
        return str(macros.behind(AuditAge(behind, 1000, 7000)))  # type: ignore[attr-defined]
    finally:
        store.close()


def test_a_collector_that_runs_is_not_to_be_started(tmp_path: Path) -> None:
    """The disk of the store was full. The page told its reader to start the collector that ran."""
    stuck = SilentCollector("dc1", "collector-dc1", "behind", 2000, 1000, 21)
    silent = SilentCollector("dc2", "collector-dc2", "silent", 1000, 1000)
    assert "Start what is missing" in banner(tmp_path, silent)
    both = banner(tmp_path, stuck, silent)
    assert "tallymark audit collect --cluster dc2" in both
    alone = banner(tmp_path, stuck)
    assert "Start what is missing" not in alone
    assert "their logs say why" in alone
