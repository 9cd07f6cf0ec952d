"""The charts of ``bench/paper.py``."""

from __future__ import annotations

from xml.etree import ElementTree

from support.paper.chart import line_chart, rates

_SVG = "{http://www.w3.org/2000/svg}"


def test_rates_are_those_since_the_mark_before() -> None:
    points = rates((1.0, 1.5, 3.5), 3000, 200_000)
    assert points == [(200.0, 1000.0), (400.0, 2000.0), (600.0, 500.0)]


def test_marks_at_one_moment_are_one_point() -> None:
    """A consumer that gets lists passes several marks at once: no rate is infinite."""
    assert rates((1.0, 1.0, 2.0), 3000, 200_000) == [(200.0, 1000.0), (600.0, 2000.0)]
    assert rates((0.0, 0.0), 2000, 200) == []


def test_a_chart_has_a_line_and_a_name_for_each_series() -> None:
    lines = {"a <b>": [(1.0, 100.0), (2.0, 900.0)], "c": [(1.0, 50_000.0)], "none": []}
    root = ElementTree.fromstring(line_chart("T & U", "MB", "messages/s", lines))
    drawn = root.findall(f"{_SVG}polyline")
    words = [each.text for each in root.findall(f"{_SVG}text")]
    assert len(drawn) == 2
    assert {"T & U", "MB", "messages/s", "a <b>", "c", "100", "100,000"} <= set(words)
    assert "none" not in words


def test_higher_rates_are_higher_and_names_do_not_cover_each_other() -> None:
    lines = {name: [(1.0, rate)] for name, rate in (("low", 100.0), ("high", 101.0))}
    root = ElementTree.fromstring(line_chart("t", "x", "y", lines))
    low, high = (
        float(str(each.get("points")).split(",")[1]) for each in root.findall(f"{_SVG}polyline")
    )
    assert high < low  # SVG counts from the top
    places = sorted(
        float(str(each.get("y"))) for each in root.findall(f"{_SVG}text") if each.text in lines
    )
    assert places[1] - places[0] >= 16


def test_a_chart_without_any_measure_is_an_empty_one() -> None:
    root = ElementTree.fromstring(line_chart("t", "x", "y", {}))
    assert not root.findall(f"{_SVG}polyline")
