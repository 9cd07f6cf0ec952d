"""The settings file: written and read back, and what is said about a wrong one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    Deployment,
    LakeSettings,
    Mirror,
    dump_toml,
    load,
)
from tallymark.errors import UserError

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,10}", fullmatch=True)
SETTINGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.one_of(st.text(max_size=8), st.integers(0, 2**40), st.booleans()),
    max_size=3,
)


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    clusters = tuple(
        Cluster(name=n, brokers=(BrokerAddress(port=9092),), broker_settings=draw(SETTINGS))
        for n in names
    )
    mirrors = (Mirror(source=names[0], target=names[-1], topics="a|b"),) if names[1:] else ()
    lake = draw(st.sampled_from([None, LakeSettings(), LakeSettings(clusters=(names[0],))]))
    if "lake" in names:
        lake = None
    return Deployment(clusters=clusters, mirrors=mirrors, data_dir=Path(draw(NAMES)), lake=lake)


@given(deployments())
def test_what_is_written_reads_back_equal(deployment: Deployment) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(dump_toml(deployment))
        file.flush()
        assert load(file.name) == deployment


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nme = 'x'", "nme: Extra inputs are not permitted"),
        ("[audit]\nwindow_ms = 1", "audit.window_ms: Input should be greater"),
        ("name = [", "is not TOML"),
        (
            "[[mirrors]]\nsource='dc1'\ntarget='dc9'",
            ".toml: mirror dc1-to-dc9: there is no cluster 'dc9'",
        ),
        ("[[mirrors]]\nsource='dc1'\ntarget='dc1'", "copies a cluster into itself"),
        ("[lake]\ntopics = '('", ".toml: lake: '(' is not a regular expression: missing )"),
        ("[lake]\nclusters = ['dc9']", "lake: there is no cluster 'dc9'"),
        ("[lake]\nformat = 'hudi'", "lake.format: Input should be 'delta' or 'iceberg'"),
        (
            "[lake]\n[[clusters]]\nname = 'lake'\nbrokers = [{ port = 1 }]",
            "a cluster cannot be called 'lake'",
        ),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tallymark.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_own_clusters_need_no_word_about_mirrors(tmp_path: Path) -> None:
    """The first settings somebody writes name one cluster. They were refused for a mirror that they
    do not mention: ``mirror dc1-to-aggregate: there is no cluster 'aggregate'``."""
    path = tmp_path / "tallymark.toml"
    path.write_text('[[clusters]]\nname = "dc1"\nbrokers = [{ port = 9092 }]\n')
    assert load(path).mirrors == ()
    assert [one.name for one in Deployment().mirrors] == ["dc1-to-aggregate", "dc2-to-aggregate"]
    both = "".join(
        f'[[clusters]]\nname = "{name}"\nbrokers = [{{ port = 9092 }}]\n'
        for name in ("dc2", "aggregate")
    )
    path.write_text(both)
    assert [one.name for one in load(path).mirrors] == ["dc2-to-aggregate"]


@pytest.mark.parametrize("clusters", ["5", '"dc1"', "[5]", "[{ name = [] }]"])
def test_clusters_that_are_none_are_refused_as_such(tmp_path: Path, clusters: str) -> None:
    path = tmp_path / "tallymark.toml"
    path.write_text(f"clusters = {clusters}\n")
    with pytest.raises(UserError, match="clusters"):
        load(path)


def test_a_missing_file() -> None:
    with pytest.raises(UserError, match=r"there is no settings file /nowhere/x\.toml"):
        load("/nowhere/x.toml")


@pytest.mark.parametrize("name", ["producer", "dc1-to-dc2"])
def test_cluster_names_that_would_be_read_as_edges(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tallymark.toml"
    path.write_text(f'mirrors = []\n[[clusters]]\nname = "{name}"\nbrokers = [{{ port = 9092 }}]\n')
    with pytest.raises(UserError, match="a cluster cannot be called"):
        load(path)


def test_there_is_a_lake_only_where_the_settings_have_its_table(tmp_path: Path) -> None:
    """The audit has a hop to the lake where somebody loads one. A deployment that ``up`` wrote out
    in full had no way to say that it has none."""
    path = tmp_path / "tallymark.toml"
    path.write_text(dump_toml(Deployment()))
    assert load(path).lake is None
    assert load(path).lake_clusters == ()
    path.write_text("[lake]\n")
    found = load(path)
    assert [cluster.name for cluster in found.lake_clusters] == ["aggregate"]
    assert found.lake_path == str(Path(".tallymark/lake").absolute())


@pytest.mark.parametrize(
    ("path", "is_"),
    [("/lake", "/lake"), ("s3://b/lake", "s3://b/lake"), ("tables", "/data/tables")],
)
def test_where_the_lake_is(path: str, is_: str) -> None:
    assert Deployment(data_dir=Path("/data"), lake=LakeSettings(path=path)).lake_path == is_


def test_a_part_of_a_deployment_has_all_that_is_mirrored_into_it() -> None:
    """Without what is upstream, records of an aggregate would be of nobody: UNCLAIMED."""
    whole = Deployment()
    assert whole.of_clusters(()) is whole
    one = whole.of_clusters(["dc2"])
    assert [cluster.name for cluster in one.clusters] == ["dc2"]
    assert one.mirrors == ()
    assert whole.of_clusters(["aggregate"]).clusters == whole.clusters
    assert whole.of_clusters(["aggregate"]).mirrors == whole.mirrors
    with pytest.raises(KeyError, match="there is no cluster 'dc9'"):
        whole.of_clusters(["dc9"])
