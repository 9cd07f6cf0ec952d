"""Java's kafka-clients, unmodified, by tokens that expire while it works."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from foreign_clients import java
from token_world import Issuer, keys_in, token_settings

from tallymark.testing.broker_thread import BrokerThread

pytestmark = [pytest.mark.process, pytest.mark.soak_cases("3.9.1")]


def run(version: str, broker: BrokerThread, issuer: Issuer, folder: Path, life: float) -> Any:
    """Java sends for 8 s; the token in its file is renewed all the time."""
    file = folder / "token"

    def renew() -> None:
        ends = time.time() + life
        new = folder / "new"
        new.write_text(f"{issuer.token('java', exp=ends)}\n{int(ends * 1000)}\n")
        os.replace(new, file)

    renew()
    process = java.with_tokens(version, broker.bootstrap_servers, f"java-{version}", file, 8)
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            renew()
            time.sleep(0.2)
        said, _ = process.communicate(timeout=5)
    finally:
        process.kill()
        process.wait()
    return json.loads(said)


@pytest.mark.parametrize("version", java.VERSIONS)
def test_java_logs_in_again_on_its_open_connection(version: str, tmp_path: Path) -> None:
    """Each token holds for 3 s, Java sends for 8: it shows new ones on the connection that is open
    (KIP-368), and all arrives once and in order."""
    issuer = Issuer()
    with BrokerThread(tmp_path, **token_settings(keys_in(tmp_path, issuer))) as broker:
        found = run(version, broker, issuer, tmp_path, 3.0)
        assert broker.broker is not None
        assert broker.broker.state is not None
        counts = broker.broker.state.logins.counts
    assert found["error"] is None
    assert found["read"] == found["sent"] > 10
    assert counts["again"] >= 2
    assert counts["failed"] == 0


@pytest.mark.parametrize("version", java.VERSIONS)
def test_java_with_a_token_of_somebody_else_s_key_fails_clearly(
    version: str, tmp_path: Path
) -> None:
    with BrokerThread(tmp_path, **token_settings(keys_in(tmp_path, Issuer()))) as broker:
        found = run(version, broker, Issuer(), tmp_path, 60.0)
    assert "SaslAuthenticationException" in found["error"]
