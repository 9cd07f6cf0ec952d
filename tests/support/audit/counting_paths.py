"""Tests of counting by both paths: import :func:`counting_path` into their module."""

from __future__ import annotations

import pytest

from tallymark_audit.collector.counting import fetch_runs
from tallymark_audit.model.compiled_runs import cutter


@pytest.fixture(autouse=True, params=["pure", "compiled"])
def counting_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pure path, or the compiled loops where numba is."""
    if request.param == "pure":
        monkeypatch.setattr(fetch_runs, "ready", lambda: False)
    else:
        pytest.importorskip("numba")
        assert cutter.warm()
        monkeypatch.setattr(fetch_runs, "FEW_BYTES", 0)
