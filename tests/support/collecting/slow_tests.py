"""How long each test took in this checkout, and the inner loop without the slow ones.

Every run keeps the times in pytest's cache: the least of each test, so that a busy moment of the
machine says nothing. ``make fast`` leaves out the tests above 0.3 s, and says how many;
``make unit`` runs them.

A run with ``--durations`` also prints the files that took longest, and how busy the processors
were: below 90 %, the tests waited for each other or for timers, and more workers would help.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

import psutil
import pytest

SLOW: Final = 0.3  # seconds
FILES_SHOWN: Final = 40
_KEY: Final = "tallymark/least_seconds"


class SlowTests:
    """A pytest plugin; with ``leave_out`` it deselects what was slow in every run so far."""

    def __init__(self, config: pytest.Config, *, leave_out: bool) -> None:
        self._cache = getattr(config, "cache", None)
        self._leave_out = leave_out
        self._seconds: dict[str, float] = {}
        self._shows = bool(config.option.durations)
        psutil.cpu_percent()  # the next call is about the time from here

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if not self._leave_out:
            return
        known = self._known()
        slow = [each for each in items if known.get(each.nodeid, 0.0) > SLOW]
        items[:] = [each for each in items if known.get(each.nodeid, 0.0) <= SLOW]
        config.hook.pytest_deselected(items=slow)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        if self._cache is None or not self._seconds:
            return
        known = self._known()
        for test, seconds in self._seconds.items():
            known[test] = round(min(seconds, known.get(test, seconds)), 3)
        self._cache.set(_KEY, known)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._shows or not self._seconds:
            return
        busy = psutil.cpu_percent()
        terminalreporter.write_sep("=", f"slowest files; processors {busy:.0f} % busy")
        for seconds, tests, file in slowest_files(self._seconds)[:FILES_SHOWN]:
            terminalreporter.write_line(f"{seconds:8.1f}s {tests:5} tests  {file}")

    def _known(self) -> dict[str, float]:
        return {} if self._cache is None else self._cache.get(_KEY, {})


def slowest_files(seconds: Mapping[str, float]) -> list[tuple[float, int, str]]:
    """(seconds, number of tests, file) of each file, the slowest first. ``seconds``: of each test,
    by its id."""
    total: defaultdict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    for test, took in seconds.items():
        file = test.partition("::")[0]
        total[file] += took
        tests[file] += 1
    return sorted(((took, tests[file], file) for file, took in total.items()), reverse=True)
