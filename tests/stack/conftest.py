"""The whole stack, as ``tallymark up`` starts it, with short windows and on free ports."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_stack import WINDOW_MS, Stack

from tallymark.cli.ports import with_free_ports
from tallymark.deployment import Deployment, dump_toml
from tallymark_audit.demo.processes import Command


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    usual = Deployment()
    audit = usual.audit.model_copy(
        update={
            "window_ms": WINDOW_MS,
            "settle_min_ms": 3_000,
            "settle_max_ms": 3_000,
            "report_interval_ms": 500,
            "silence_ms": 15_000,
        }
    )
    deployment = with_free_ports(
        usual.model_copy(update={"data_dir": tmp_path / "data", "audit": audit})
    )
    settings = tmp_path / "tallymark.toml"
    settings.write_text(dump_toml(deployment))
    up = Command("up", ["up", "--settings", settings], settings, deployment.log_dir)
    running = Stack(deployment, settings, up)
    try:
        up.wait_for(lambda: up.said("The stack is up"), "start", 240)
        yield running
    finally:
        running.close()
