"""``tallymark broker --config FILE`` as a process: Kafka's file, JSON logs, metrics."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from admin_wire import config, create

from tallymark.testing.wire import WireClient

pytestmark = pytest.mark.process


def test_a_broker_from_kafkas_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"broker.id=7\nlog.dirs={tmp_path}/data\nport=0\nenable.zookeeper=false\n"
        "num.network.threads=3\nlog.retention.hours=2\nmetrics.port=0\nlog.format=json\n"
    )
    arguments = ["broker", "--config", str(file), "--set", "num.partitions=3"]
    with subprocess.Popen(
        [sys.executable, "-m", "tallymark", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines: list[dict[str, Any]] = []
            for text in process.stderr:
                lines.append(json.loads(text))
                if lines[-1]["message"].startswith("ready"):
                    break
            _check(lines)
            process.send_signal(signal.SIGTERM)
            last = [json.loads(text) for text in process.stderr]
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert last[-1]["message"] == "stopped"


def _check(lines: list[dict[str, Any]]) -> None:
    messages = [each["message"] for each in lines]
    assert "num.network.threads has no effect: one event loop does all" in messages
    settings = next(text for text in messages if text.startswith("settings: "))
    assert "node.id=7" in settings
    assert "log.retention.ms=7200000" in settings
    (url,) = (each["url"] for each in lines if "url" in each)
    with urllib.request.urlopen(url.replace("metrics", "health"), timeout=10) as answer:
        assert json.load(answer) == {"status": "ready", "node_id": 7, "offline_log_dirs": []}
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert b'tallymark_broker_status{status="ready"} 1.0' in answer.read()
    with WireClient(messages[-1].removeprefix("ready ")) as wire:
        assert create(wire, "t", -1, -1).num_partitions == 3
        assert config(wire, "t", "retention.ms").value == "7200000"
