"""The order of the test files when several workers share them.

Tests of Spark use both cores and take minutes, most others wait for processes and timers or are
short. Together at the end (pytest-xdist's own order: files with many tests first) the former keep
some workers busy for minutes while others have nothing left to do. So their files are spread among
the others, all in the first three quarters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

import pytest

T = TypeVar("T")


def spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests, file by file, with the files of Spark among the others."""
    files = [list(group) for _, group in groupby(items, key=lambda one: one.path)]
    return [test for file in spread_among(files, _is_heavy) for test in file]


def spread_among(found: Sequence[T], is_heavy: Callable[[T], bool]) -> list[T]:
    """The elements with the heavy ones at even distances in the first three quarters, both kinds in
    their own order."""
    heavy = [one for one in found if is_heavy(one)]
    light = [one for one in found if not is_heavy(one)]
    distance = len(light) * 3 / 4 / len(heavy) if heavy else 0.0
    ordered: list[T] = []
    taken = 0
    for number, one in enumerate(heavy):
        until = int(number * distance)
        ordered += [*light[taken:until], one]
        taken = until
    return ordered + light[taken:]


def _is_heavy(file: list[pytest.Item]) -> bool:
    return any(test.get_closest_marker("spark") for test in file)
