"""The drawing of clusters and edges."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.clusters.topology import Arrow, Node, drawing, places

NAMES = [f"n{number}" for number in range(8)]
pairs = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30)


def test_two_datacenters_into_an_aggregate_and_a_lake() -> None:
    nodes = ["producer", "dc1", "dc2", "aggregate", "lake"]
    edges = [("producer", "dc1"), ("producer", "dc2"), ("dc1", "aggregate"), ("dc2", "aggregate"),
             ("aggregate", "lake")]  # fmt: skip
    assert places(nodes, edges) == {
        "producer": (0, 0), "dc1": (1, 0), "dc2": (1, 1), "aggregate": (2, 0), "lake": (3, 0),
    }  # fmt: skip


def test_two_clusters_that_are_mirrored_into_each_other_stand_side_by_side() -> None:
    assert places(["a", "b"], [("a", "b"), ("b", "a")]) == {"a": (0, 0), "b": (1, 0)}


@given(pairs)
def test_every_node_has_a_place_of_its_own_whatever_the_edges(edges: list[tuple[str, str]]) -> None:
    found = places(NAMES, edges)
    assert set(found) == set(NAMES)
    assert len(set(found.values())) == len(NAMES)


@given(pairs)
def test_without_circles_every_edge_leads_to_the_right(edges: list[tuple[str, str]]) -> None:
    onward = [(one, other) for one, other in edges if one < other]
    found = places(NAMES, onward)
    assert all(found[one][0] < found[other][0] for one, other in onward)


@given(pairs, st.text(max_size=80))
def test_the_drawing_is_well_formed_whatever_the_names_are(
    edges: list[tuple[str, str]], text: str
) -> None:
    nodes = [Node(name, text, "bad", "✗") for name in NAMES]
    arrows = [Arrow(text, one, other, text, "warn") for one, other in edges]
    ElementTree.fromstring(drawing(nodes, arrows, text))


def test_no_line_leads_through_the_text_of_another() -> None:
    """“7 missing” had a dashed arrow through it."""
    nodes = [Node(name, "well") for name in ("producer", "dc1", "dc2")]
    arrows = [Arrow(f"to-{to}", "producer", to, f"{to} text") for to in ("dc1", "dc2")]
    drawn = drawing(nodes, arrows, "topology")
    assert drawn.rindex("<path d=") < drawn.index("dc1 text</text>")


BOX_OF_A_CHARACTER = (6.6, 12.0)
TEXTS = ("? 6 windows unknown", "− 7 missing", "− 7 missing, 1,234,567 behind", "✓ complete")
forward = st.lists(
    st.tuples(st.integers(0, 3), st.integers(4, 7), st.sampled_from(TEXTS)),
    max_size=3,  # of many between the same columns two long texts may find no free place
    unique_by=lambda one: one[:2],
)


def boxes_and_lines(
    drawn: str,
) -> tuple[list[tuple[str, list[float]]], dict[str, list[list[float]]]]:
    """By the name of the arrow: boxes of texts (left, top, right, bottom), points of lines."""
    boxes, lines = [], {}
    for group in ElementTree.fromstring(drawn).iter("g"):
        if not group.get("class", "").startswith("hop"):
            continue
        name = (group.findtext("title") or "").partition(":")[0]
        for text in group.iter("text"):
            wide, high = BOX_OF_A_CHARACTER
            x, y, length = float(text.get("x", 0)), float(text.get("y", 0)), len(text.text or "")
            left = x - (
                wide * length if text.get("anchor", text.get("text-anchor")) == "end" else 0
            )
            boxes.append((name, [left, y - high + 2, left + wide * length, y + 2]))
        for path in group.iter("path"):
            numbers = [float(one) for one in re.findall(r"-?[0-9.]+", path.get("d", ""))]
            lines[name] = [bezier(numbers, step / 60) for step in range(61)]
    return boxes, lines


def bezier(numbers: list[float], t: float) -> list[float]:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
    return [sum(weights[n] * numbers[2 * n + axis] for n in range(4)) for axis in (0, 1)]


@given(forward)
def test_a_text_covers_neither_its_line_nor_another_text(edges: list[tuple[int, int, str]]) -> None:
    """“7 missing” began on its own curve."""
    arrows = [
        Arrow(f"{one}-to-{other}", NAMES[one], NAMES[other], text, "bad")
        for one, other, text in edges
    ]
    boxes, lines = boxes_and_lines(drawing([Node(name, "") for name in NAMES], arrows, "x"))
    for number, (name, (left, top, right, bottom)) in enumerate(boxes):
        assert not [(x, y) for x, y in lines[name] if left <= x <= right and top <= y <= bottom], (
            name
        )
        for other, (a, b, c, d) in boxes[number + 1 :]:
            assert c <= left or right <= a or d <= top or bottom <= b, (name, other)


def test_without_nodes_nothing_is_drawn() -> None:
    assert drawing([], [], "") == ""


def test_an_arrow_to_a_node_that_is_not_there_is_left_out() -> None:
    assert "gone" not in drawing([Node("a", "")], [Arrow("x", "a", "gone", "text")], "")
