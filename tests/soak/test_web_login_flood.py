"""Floods of wrong passwords over HTTP, beside people who have logged in and people who log in."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import httpx
import pytest
import web_login_flood
from as_before import assert_as_before
from flooding import flood
from security_world import PASSWORD, add_users
from web_login_flood import basic
from web_process import WebProcess

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(600)]

SAMPLES = 60
MIB = 1 << 20


def times(process: WebProcess, names: list[str]) -> dict[str, list[float]]:
    """Seconds of requests of somebody who is logged in, and of first log-ins of ``names``."""
    found: dict[str, list[float]] = {"logged in": [], "first log-in": []}
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=transport, timeout=60) as http:
        for name in names:
            for kind, user in (("logged in", "carol"), ("first log-in", name)):
                began = time.perf_counter()
                answer = http.get(f"{process.url}/subjects", headers=basic(user, PASSWORD))
                found[kind].append(time.perf_counter() - began)
                assert answer.status_code == 200, (kind, user, answer.text[:200])
    return found


@pytest.mark.parametrize("kind", web_login_flood.FLOODS)
def test_wrong_passwords_over_http_cost_those_who_send_them(kind: str, tmp_path: Path) -> None:
    """A hundred connections try wrong passwords as fast as they are answered. Each check takes
    milliseconds of a core: two threads do it, for so many of an address."""
    groups = [[f"{group}-{n}" for n in range(SAMPLES)] for group in ("calm", "flood", "after")]
    users = [name for group in groups for name in group]
    users += ["alice", "carol", *(f"user-{n}" for n in range(300))]
    add_users(tmp_path / "web", *users)
    security = f'[security]\nusers_file = "{tmp_path / "web" / "security.json"}"\n'
    with WebProcess(tmp_path, "registry", security) as process:
        times(process, ["carol"] * SAMPLES)
        calm = times(process, groups[0])
        base, logs, sockets = process.memory()[0], process.log_bytes(), process.sockets()
        with flood(web_login_flood.__file__, str(process.port), kind):
            wild = times(process, groups[1])
        after = times(process, groups[2])
        grown, logged = process.memory()[1] - base, process.log_bytes() - logs
        assert process.is_alive
        assert process.sockets() <= sockets + 5
        assert "Traceback" not in process.log.read_text()
    for name in calm:
        told = [
            f"{median(one[name]) * 1000:.1f} ({max(one[name]) * 1000:.0f})"
            for one in (calm, wild, after)
        ]
        print(f"{kind}, {name}: median (longest) ms {' -> '.join(told)}")
    print(f"memory +{grown / MIB:.0f} MiB, log {logged / 1000:.0f} kB")
    assert grown < 100 * MIB
    assert logged < 2 * MIB
    for name in calm:
        assert median(wild[name]) < 20 * median(calm[name])
        assert_as_before(calm[name], after[name], 0.002, name)
