"""``tallymark verify-log``: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import run_command

from tallymark.cli.admin import verify_log
from tallymark.client import Producer
from tallymark.testing import BrokerThread


def test_damage_is_told_with_progress_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no bar, and a progress of its own."""
    with BrokerThread(tmp_path) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            for _ in range(20):
                producer.send("t", b"x" * 100)
                producer.flush()
    monkeypatch.setattr("tallymark.shell.progress.LINE_EVERY_S", 0.0)
    data = tmp_path / "broker"
    (log,) = (data / "t-0").glob("*.log")
    told = run_command(verify_log.command, str(data))
    assert "t-0: ok, offsets 0 to 20" in told.stdout
    size = log.stat().st_size
    assert f"100 %, verified {size:,} of {size:,} bytes" in told.stderr
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)
    told = run_command(verify_log.command, str(data), "--json", code=1)
    document = json.loads(told.stdout)
    assert document["ok"] is False
