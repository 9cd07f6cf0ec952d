"""The drawing of clusters and edges."""

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


def test_without_nodes_nothing_is_drawn() -> None:
    assert drawing([], [], "") == ""


def test_an_arrow_to_a_node_that_is_not_there_is_left_out() -> None:
    assert "gone" not in drawing([Node("a", "")], [Arrow("x", "a", "gone", "text")], "")
