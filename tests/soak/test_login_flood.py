"""A flood of wrong log-ins, beside people who log in and people who work."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import login_flood
import pytest
from broker_process import BrokerProcess
from eventually import eventually
from security_world import PASSWORD, add_users

from tallymark.client import Admin, Producer

pytestmark = [pytest.mark.process, pytest.mark.soak]


def seconds(work: Callable[[], Any], times: int = 40) -> float:
    """The median of so many runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


@pytest.mark.parametrize("kind", login_flood.FLOODS)
def test_wrong_log_ins_cost_those_who_send_them(kind: str, tmp_path: Path) -> None:
    """Two hundred connections tried wrong passwords as fast as they were answered: their hashes
    took the threads that read disks, and a good log-in waited 0.6 s behind all of them. Log-ins of
    others in the same way, also the first one of a user, log-ins by SCRAM and a producer's
    acknowledgements take what they took before, times what one more busy process is to this
    machine."""
    add_users(tmp_path / "data", "alice", "bob", "carol", "dave")
    broker = BrokerProcess(
        tmp_path,
        listeners="SASL_PLAINTEXT://127.0.0.1:{port}",
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-512",
    )
    with broker:
        address = broker.address
        given: dict[str, Any] = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "carol",
            "sasl_password": PASSWORD,
        }

        def good() -> None:
            assert login_flood.log_in(address, "bob", PASSWORD) == 0

        def by_scram() -> None:
            with Admin(**given) as admin:
                admin.brokers()

        with Producer(audit=False, linger_ms=0, **given) as producer:

            def send() -> None:
                producer.send("t", b"x").result(30)

            send()
            good()
            work = {"plain": good, "scram": by_scram, "send": send}
            calm = {name: seconds(each) for name, each in work.items()}
            memory = broker.rss_bytes()
            flood = subprocess.Popen(
                [sys.executable, login_flood.__file__, address, kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert flood.stdout is not None
            assert flood.stdout.readline() == "began\n"
            time.sleep(2)
            began = time.perf_counter()
            assert login_flood.log_in(address, "dave", PASSWORD) == 0
            first = time.perf_counter() - began
            wild = {name: seconds(each) for name, each in work.items()}
            grown = broker.rss_bytes() / memory
            refused, _ = flood.communicate("")
            eventually(lambda: broker.open_files()[0] < 10)  # what it left behind is gone
            time.sleep(2)
            after = {name: seconds(each) for name, each in work.items()}
        log_bytes = broker.log.stat().st_size
    print(kind, "refused", refused.strip(), "first", first, "grown", grown, "log", log_bytes)
    print("calm", calm, "wild", wild, "after", after)
    assert int(refused) > 100
    # At rest a log-in takes about 1 ms, a client and its log-in 6 ms.
    assert first < 30 * calm["scram"]
    assert {name: wild[name] < 30 * calm[name] for name in work} == dict.fromkeys(work, True)
    assert {name: after[name] < 4 * calm[name] for name in work} == dict.fromkeys(work, True)
    # Four hundred connections took 27 MB beside 53, and no more in 30 s than in 10.
    assert grown < 2
    assert log_bytes < 100_000
