"""The folder of a demo."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from control_ports import supervisor

from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark_audit.proof.demo.stack import demo_deployment, prepare_folder


def test_a_demo_that_runs_is_left_alone_and_the_way_to_stop_it_named(tmp_path: Path) -> None:
    """The terminal of the first demo was closed or lost, and the second one said no more than
    "stop it with Ctrl-C"."""
    folder = tmp_path / "a demo"
    deployment = demo_deployment(folder)
    settings = prepare_folder(deployment)
    with supervisor(folder, "broker-dc1-0"), pytest.raises(UserError) as refused:
        prepare_folder(deployment)
    assert refused.value.do.startswith("stop it with Ctrl-C, or with: tallymark down --settings ")
    assert shlex.split(refused.value.do)[-1] == str(settings)
    assert load(settings).data_dir == folder
