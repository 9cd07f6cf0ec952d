"""``bench/paper.py`` with our own broker and client, and with a product that is not installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from paper import charts, run_all
from support.paper.runs import PRODUCTS, SIZE, Run
from support.paper.servers import ActiveMq, NotInstalledError


@pytest.mark.soak
@pytest.mark.process
def test_a_few_thousand_messages_through_our_own_broker(tmp_path: Path) -> None:
    produced, consumed = run_all([Run(PRODUCTS[0], "python", 50, 3000)], [], 0, tmp_path)
    assert (produced.messages, consumed.messages) == (3000, 3000)
    assert (produced.job, consumed.job) == ("produce", "consume")
    assert 9 <= produced.disk_bytes / 3000 - SIZE < 20
    assert len(produced.marks) == 20
    assert min(produced.seconds, produced.client_cpu) > 0
    assert produced.broker_cpu >= 0, "counted in hundredths of a second, so it may be none"
    assert not list(tmp_path.iterdir())


def test_a_product_that_is_not_installed_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Missing(ActiveMq):
        def _launch(self) -> None:
            raise NotInstalledError("ActiveMQ is not installed", "run deploy/it")

    product = replace(PRODUCTS[2], server=Missing)
    runs = [Run(product, "python", 0, 10), Run(product, "python", 0, 10)]
    assert run_all(runs, [], 0, tmp_path) == []
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("without ActiveMQ, stomp.py: ActiveMQ is not installed")


def test_without_the_java_clients_their_runs_are_left_out(tmp_path: Path) -> None:
    assert run_all([Run(PRODUCTS[0], "java", 1, 10)], [], 0, tmp_path) == []


def test_there_is_a_chart_for_producing_and_one_for_consuming() -> None:
    assert set(charts([])) == {"paper-produce.svg", "paper-consume.svg"}
