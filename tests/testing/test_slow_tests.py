"""The slowest files of a run."""

from __future__ import annotations

from slow_tests import slowest_files


def test_the_seconds_of_a_file_are_those_of_its_tests() -> None:
    seconds = {"a.py::test_x": 1.5, "b.py::test_x[1]": 1.0, "b.py::Class::test_y": 2.0}
    assert slowest_files(seconds) == [(3.0, 2, "b.py"), (1.5, 1, "a.py")]
