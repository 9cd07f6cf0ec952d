"""Registry and dashboards as processes, attacked over HTTP: they stay alive and small, and serve
others meanwhile.

One schema of 112 kB kept the registry busy for 27 s with 1.9 GB while everybody else got 500, and
1,500 half requests stayed for ever.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from as_before import assert_as_before
from eventually import eventually
from hostile_schemas import LARGE, TOO_MANY_PARTS, mutated
from web_fuzz import TARGETS, fuzz_web, half_requests
from web_process import Healthy, WebProcess

from tallymark_schema_registry.web.requests import MAX_PARTS

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(3600)]

MIB = 1 << 20
SEED = 20_261_122


def small_schema(number: int) -> str:
    field = {"name": f"f{number % 50}", "type": "int", "default": 0}
    return json.dumps({"type": "record", "name": "R", "fields": [field]})


def register(url: str) -> Callable[[httpx.Client, int], httpx.Response]:
    def ask(http: httpx.Client, number: int) -> httpx.Response:
        if number % 2:
            return http.get(f"{url}/subjects/ours/versions/latest")
        body = {"schema": small_schema(number)}
        return http.post(f"{url}/subjects/ours/versions", json=body)

    return ask


def overview(url: str) -> Callable[[httpx.Client, int], httpx.Response]:
    return lambda http, _number: http.get(f"{url}/")


def measured(process: WebProcess, ask: Callable[[httpx.Client, int], httpx.Response]) -> Healthy:
    """How others are served without an attack."""
    with Healthy(ask) as healthy:
        eventually(lambda: len(healthy.seconds) >= 100, seconds=300)
    assert healthy.failures == []
    return healthy


def report(name: str, process: WebProcess, *runs: Healthy) -> None:
    figures = "; ".join(
        f"median {run.median * 1000:.0f} ms, p99 {run.p99 * 1000:.0f} ms of {len(run.seconds)}"
        for run in runs
    )
    now, peak = process.memory()
    print(
        f"{name}: {figures}; memory {now // MIB} MiB, peak {peak // MIB} MiB; "
        f"logs {process.log_bytes() // 1024} KiB"
    )


def post_all(process: WebProcess, attacker: httpx.Client) -> dict[str, int]:
    """Every large schema against every other of its pair, at the level that compares most; and
    those with too many parts, which are refused before they are read."""
    seen: dict[str, int] = {}
    attacker.put(f"{process.url}/config", json={"compatibility": "FULL_TRANSITIVE"})

    def post(subject: str, text: str) -> httpx.Response:
        body = json.dumps({"schema": text}).encode()
        answer = attacker.post(f"{process.url}/subjects/{subject}/versions", content=body)
        assert len(answer.content) < MIB
        return answer

    for number, (name, make) in enumerate(LARGE.items()):
        for text in make():
            answer = post(f"large{number}", text)
            seen[f"{name} {answer.status_code}"] = seen.get(f"{name} {answer.status_code}", 0) + 1
            assert answer.status_code in (200, 409, 422), f"{name}: {answer.text[:300]}"
    for name, make in TOO_MANY_PARTS.items():
        answer = post("too-many-parts", make()[1])
        assert answer.status_code == 400, f"{name}: {answer.text[:300]}"
        assert f"more than {MAX_PARTS} parts" in answer.text
    return seen


def test_schemas_that_cost_much(tmp_path: Path) -> None:
    """Two of them had been read for a tenth of a second each, in which nothing else was answered:
    since the parts of a body are bounded they are refused with 400, which this test took for an
    error until it was run again."""
    with WebProcess(tmp_path, "registry") as process:
        httpx.put(f"{process.url}/config/ours", json={"compatibility": "NONE"})
        httpx.post(
            f"{process.url}/subjects/ours/versions", json={"schema": small_schema(0)}
        ).raise_for_status()
        ask = register(process.url)
        without = measured(process, ask)
        base = process.memory()[0]
        with Healthy(ask) as during, httpx.Client(timeout=120) as attacker:
            print(post_all(process, attacker))
            threads = [
                threading.Thread(target=_post_mutated, args=(process.url, SEED + n))
                for n in range(6)
            ]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        after = measured(process, ask)
        report("schemas", process, without, during, after)
        assert process.is_alive
        assert during.failures == []
        assert process.memory()[1] - base < 200 * MIB
        assert during.median < 20 * without.median
        assert_as_before(without.seconds, after.seconds, 0.002, "an answer, s")
        assert "Traceback" not in process.log.read_text()


def _post_mutated(url: str, seed: int) -> None:
    with httpx.Client(timeout=120) as http:
        for number, pair in enumerate(mutated(seed, 40)):
            for text in pair:
                path = f"{url}/subjects/mutated{seed}-{number}/versions"
                answer = http.post(path, json={"schema": text})
                assert answer.status_code in (200, 409, 422, 503), answer.text[:300]


@pytest.mark.parametrize(("command", "ask"), [("registry", register), ("dashboards", overview)])
def test_requests_that_are_none(
    tmp_path: Path,
    command: str,
    ask: Callable[[str], Callable[[httpx.Client, int], httpx.Response]],
) -> None:
    """Fuzzed requests, with 1,500 half ones beside them."""
    with WebProcess(tmp_path, command) as process:
        asking = ask(process.url)
        if command == "registry":
            httpx.put(f"{process.url}/config/ours", json={"compatibility": "NONE"})
            httpx.post(f"{process.url}/subjects/ours/versions", json={"schema": small_schema(0)})
        fuzz_web(process.port, 300, SEED + 1, TARGETS[command])
        without = measured(process, asking)
        base, sockets, logs = process.memory()[0], process.sockets(), process.log_bytes()
        with Healthy(asking) as during:
            sent = fuzz_web(process.port, 6000, SEED, TARGETS[command])
        with ExitStack() as opened:
            held = [opened.enter_context(one) for one in half_requests(process.port, 1500)]
            # Sooner than the heads are due (10 s): what is too many is closed when it is accepted.
            eventually(lambda: process.sockets() <= 512 + sockets, seconds=8)
            eventually(lambda: process.sockets() <= sockets + 5, seconds=60)
        after = measured(process, asking)
        grown = process.log_bytes() - logs
        print(f"{command}: answered {sent[0]}, closed {sent[1]}, held {len(held)}")
        report(command, process, without, during, after)
        assert process.is_alive
        assert during.failures == []
        assert sent[0] > 3000, "most requests were never looked at"
        assert process.memory()[1] - base < 200 * MIB
        assert grown < 8 * MIB, "a request wrote far more than a line"
        assert process.log.stat().st_size < 2 * MIB
        assert during.median < 20 * without.median
        assert_as_before(without.seconds, after.seconds, 0.002, "an answer, s")
        assert "Traceback" not in process.log.read_text()
