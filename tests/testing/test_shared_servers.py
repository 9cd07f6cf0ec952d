"""One worker runs the tests of Spark, another those of Apache Kafka."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from project import ROOT
from shared_servers import SERVERS, next_file, server_of

FILES = st.dictionaries(
    st.text("abc", min_size=1), st.sampled_from([None, *SERVERS]), min_size=1, max_size=20
)


def test_a_worker_runs_the_files_of_its_server_first_then_those_of_none_then_any() -> None:
    """Each of three workers had started a JVM of Spark and a server of Apache Kafka for itself."""
    waiting: dict[str, str | None] = {"a": None, "k": "apache_kafka", "b": None, "s": "spark"}
    order = []
    while waiting:
        order.append(next_file(waiting, "spark"))
        del waiting[order[-1]]
    assert order == ["s", "a", "b", "k"]


@given(FILES, st.sampled_from([None, *SERVERS]))
def test_a_file_is_found_as_long_as_one_waits(
    waiting: dict[str, str | None], mine: str | None
) -> None:
    found = next_file(waiting, mine)
    assert found in waiting
    if mine in waiting.values():
        assert waiting[found] == mine


def test_files_are_known_by_their_marks_fixtures_and_parameters() -> None:
    def known(file: str, *tests: str) -> str | None:
        return server_of(file, (ROOT / file).read_text(encoding="utf-8"), tests)

    assert known("tests/spark_jobs/test_spark_counts.py") == "spark"
    assert known("tests/spark_jobs/test_jobs_apache_kafka.py") == "spark"
    assert known("tests/apache_kafka/test_commands.py") == "apache_kafka"
    assert known("tests/copying/test_copier.py") is None
    assert known("tests/copying/test_copier.py", "test_copier.py::t[apache_kafka]") is not None
    assert known("tests/log/test_log.py") is None
