"""The main job on Apache Kafka's brokers: as ``make demo KAFKA=apache ONCE=1`` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker_kinds import skip_without_jars

pytestmark = [
    pytest.mark.apache_kafka,
    pytest.mark.process,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]


def test_the_main_job(tmp_path: Path) -> None:
    """Publish, mirror, cut an unflushed tail, name what was lost by Spark, repair it: the demo ends
    well only if every one of its own checks held."""
    skip_without_jars()
    command = [sys.executable, "-m", "tallymark", "demo", "--once", "--seed", "7"]
    command += ["--kafka", "apache", "--data", str(tmp_path / "demo")]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=800,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "150"},
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    assert "identities are equal, one by one" in ended.stdout
    outputs = sorted((tmp_path / "demo").glob("*/broker-0/output.log"))
    assert [path.parent.parent.name for path in outputs] == ["aggregate", "dc1", "dc2"]
