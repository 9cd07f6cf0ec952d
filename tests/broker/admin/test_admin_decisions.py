"""Configs without a broker: types, what altering makes of them, Kafka's files, the reference."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from project import ROOT

from tallymark.broker.reference import settings_page as config_reference
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_alter import AlterOp, changed, replaced
from tallymark.broker.settings.config_describe import describe_broker, describe_topic
from tallymark.broker.settings.config_types import (
    ConfigSource,
    between,
    boolean,
    list_of,
    one_of,
    only,
    ratio,
    shown,
)
from tallymark.broker.settings.names import OTHER_NAMES, is_secret, kafka_name
from tallymark.broker.settings.properties_file import UNITS, WITHOUT_EFFECT, read_properties
from tallymark.broker.settings.text import log_effective, parse
from tallymark.broker.settings.topic_configs import RULES, log_config, topic_values
from tallymark.cli.servers.broker import command, of_file
from tallymark.errors import KafkaError, UserError
from tallymark.log.config import LogConfig

# --- values


@pytest.mark.parametrize("text", ["", "x", "1.5", "1_0", " 1", "0x1", "٣", "9" * 30, "-", "+"])
def test_texts_that_are_no_integers(text: str) -> None:
    with pytest.raises(ValueError, match="integer"):
        between(-(2**63), 2**63 - 1)(text)


def test_bounds_are_inclusive() -> None:
    assert [between(-1, 3)(text) for text in ("-1", "3", "+2", "007"[:1])] == [-1, 3, 2, 0]
    for text in ("-2", "4"):
        with pytest.raises(ValueError, match="from -1 to 3"):
            between(-1, 3)(text)


@pytest.mark.parametrize("text", ["", ".", "-", "1e1", "nan", "inf", "1.01", "-0.1", "0,5"])
def test_texts_that_are_no_ratios(text: str) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        ratio(text)


def test_the_other_kinds_of_values() -> None:
    assert [ratio(text) for text in ("0", "1", ".5", "0.25")] == [0, 1, 0.5, 0.25]
    assert [boolean(text) for text in ("true", "FALSE")] == [True, False]
    assert list_of("a", "b")(" b , a ") == ("b", "a")
    assert one_of("a", "b")("b") == "b"
    assert only(1, "why")("1") == 1
    assert only(False, "why")("false") is False
    for rule, text in (
        (boolean, "yes"),
        (list_of("a"), "a,a"),
        (one_of("a"), "A"),
        (only(1, ""), "2"),
    ):
        with pytest.raises(ValueError, match=r"must|only"):
            rule(text)
    assert [shown(value) for value in (True, 5, ("a", "b"), Path("x"), "")] == [
        *("true", "5", "a,b", "x", "")
    ]


# --- the table


def test_every_topic_config_has_a_default_that_is_right_and_a_text() -> None:
    values = topic_values(BrokerSettings(), {})
    assert list(values) == sorted(RULES)
    for name, row in RULES.items():
        assert row.doc.endswith("."), name
        assert row.name == name
        if row.setting:
            assert row.setting in BrokerSettings.model_fields
        if row.field:
            assert row.field in LogConfig.__dataclass_fields__


def test_policies_decide_what_retention_does() -> None:
    def config(policy: str) -> LogConfig:
        given = {"cleanup.policy": policy, "retention.ms": "5", "retention.bytes": "6"}
        return log_config(BrokerSettings(), given)

    both = config("compact,delete")
    assert (both.compact, both.delete) == (True, True)
    assert (both.retention_ms, both.retention_bytes) == (5, 6)
    compacted = config("compact")
    assert (compacted.compact, compacted.delete) == (True, False)
    assert (compacted.retention_ms, compacted.retention_bytes) == (-1, -1)
    plain = config("delete")
    assert (plain.compact, plain.delete, plain.retention_ms) == (False, True, 5)
    of_broker = log_config(BrokerSettings(log_cleanup_policy="compact"), {})
    assert of_broker.compact


# --- altering


def test_a_strange_config_of_before_stays_and_can_be_deleted() -> None:
    current = {"internal.segment.bytes": "5", "retention.ms": "7"}
    after = changed(BrokerSettings(), current, [("retention.ms", AlterOp.SET, "8")])
    assert after == {"internal.segment.bytes": "5", "retention.ms": "8"}
    gone = changed(BrokerSettings(), current, [("internal.segment.bytes", AlterOp.DELETE, None)])
    assert gone == {"retention.ms": "7"}
    with pytest.raises(KafkaError, match="unknown topic config"):
        changed(BrokerSettings(), current, [("internal.segment.bytes", AlterOp.SET, "8")])
    assert replaced(BrokerSettings(), [("retention.ms", "8")]) == {"retention.ms": "8"}


@given(
    st.dictionaries(st.sampled_from(["retention.ms", "segment.ms", "flush.ms"]), st.just("9")),
    st.lists(
        st.tuples(
            st.sampled_from(["retention.ms", "segment.ms", "flush.ms", "x"]) | st.text(max_size=4),
            st.integers(-1, 5),
            st.none() | st.sampled_from(["1", "x", ""]) | st.text(max_size=4),
        ),
        max_size=4,
    ),
)
def test_any_change_gives_right_configs_or_an_error(
    current: dict[str, str], changes: list[tuple[str, int, str | None]]
) -> None:
    before = dict(current)
    refused = ""
    after = before
    try:
        after = changed(BrokerSettings(), current, changes)
    except KafkaError as error:
        refused = error.name
    assert refused in ("", "INVALID_CONFIG", "INVALID_REQUEST")
    log_config(BrokerSettings(), after)
    untouched = before.keys() - {name for name, _, _ in changes}
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert current == before


# --- describing


def test_what_is_in_force_is_what_is_described() -> None:
    settings = BrokerSettings(log_retention_ms=5)
    overrides = {"segment.ms": "7", "strange": "x", "flush.ms": "never"}
    values = topic_values(settings, {"segment.ms": "7"})
    for config in describe_topic(settings, overrides):
        assert RULES[config.name].rule(config.value or "") == values[config.name]
        first = config.synonyms[0].source if config.synonyms else ConfigSource.DEFAULT
        assert config.source is first


def test_secrets_are_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    settings = BrokerSettings(ssl_key_password="geheim")
    for config in describe_broker(settings):
        assert "geheim" not in repr(config)
        assert config.sensitive == is_secret(config.name)
    with caplog.at_level("INFO"):
        log_effective(settings, logging.getLogger("x"))
    assert "ssl.key.password=(hidden)" in caplog.text
    assert "geheim" not in caplog.text
    with pytest.raises(UserError) as raised:
        parse({"ssl.key.password": ["geheim"]})
    assert "geheim" not in str(raised.value)


# --- files


def test_a_file_of_kafka_works_as_it_is() -> None:
    text = """
        # The id of the broker.
        broker.id=3
        ! another comment
        num.network.threads=3
        num.io.threads : 8
        socket.send.buffer.bytes=102400
        log.dirs=/data/a,\\
                 /data/b
        num.partitions = 4
        offsets.topic.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=2
        log.retention.check.interval.ms=300000
        zookeeper.connect=localhost:2181/kafka
        group.initial.rebalance.delay.ms=0
    """
    found = read_properties(text, "server.properties")
    settings = parse(found.values)
    assert settings.node_id == 3
    assert settings.log_dirs == (Path("/data/a"), Path("/data/b"))
    assert settings.num_partitions == 4
    assert settings.log_retention_ms == 2 * 3_600_000
    assert settings.zookeeper_connect == "localhost:2181/kafka"
    assert settings.transaction_state_log_min_isr == 1
    assert set(found.skipped) == {
        *("num.network.threads", "num.io.threads", "socket.send.buffer.bytes"),
    }


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("log.retention.minutes=5", 300_000),
        ("log.retention.hours=1\nlog.retention.minutes=5", 300_000),
        ("log.retention.ms=7\nlog.retention.hours=1", 7),
        ("log.retention.hours=-1", -1),
    ],
)
def test_units_are_converted_and_the_finest_counts(text: str, milliseconds: int) -> None:
    assert parse(read_properties(text, "f").values).log_retention_ms == milliseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nnonsense", "f line 2: 'nonsense' is not name=value"),
        ("=5", "f line 1"),
        ("a=1\nb=2\n a = 3", "f line 3: a is set twice"),
        ("log.retention.hours=soon", "log.retention.hours=soon is not a number"),
        ("a\\\n", "f line 1"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        read_properties(text, "f")
    assert message in str(raised.value)


def test_an_unknown_name_in_a_file_comes_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=x\nlog.retenion.ms=5\n")
    for option in ("--config", "--settings"):
        result = CliRunner().invoke(command, [option, str(file)])
        assert isinstance(result.exception, UserError)
        assert "did you mean log.retention.ms" in str(result.exception)


def test_a_file_of_kraft_says_what_to_write_instead(tmp_path: Path) -> None:
    """The ``server.properties`` that comes with Kafka 4 begins with process.roles. The error was
    that there is no such setting, without a word about KRaft."""
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker,controller\nnode.id=1\n")
    result = CliRunner().invoke(command, ["--config", str(file)])
    assert isinstance(result.exception, UserError)
    assert "KRaft" in result.exception.what
    assert "zookeeper.connect" in str(result.exception)


def test_names_that_only_tune_kafka_itself_are_skipped() -> None:
    """A file from years of work with Kafka was refused for the number of its cleaner's threads."""
    text = "log.cleaner.threads=4\nnum.network.threads=8\ninter.broker.protocol.version=3.9\n"
    read = read_properties(text, "f")
    assert read.values == {}
    assert len(read.skipped) == 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe=1")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "bytes"):
        with pytest.raises(UserError, match="--config"):
            of_file(path)


@given(st.text(alphabet="ab.=:#!\\\n ", max_size=40))
def test_any_text_is_a_file_or_an_error(text: str) -> None:
    try:
        names = read_properties(text, "f").values
    except UserError:
        return
    assert all(name and name == name.strip() for name in names)


def test_names_without_effect_are_not_settings_as_well() -> None:
    known = {kafka_name(field) for field in BrokerSettings.model_fields} | set(OTHER_NAMES)
    converted = {name for names in UNITS.values() for name, _ in names}
    assert not known & (WITHOUT_EFFECT.keys() | converted)
    assert UNITS.keys() <= known


# --- the reference


def test_the_page_of_settings_is_up_to_date() -> None:
    page = (ROOT / "docs/broker-settings.md").read_text(encoding="utf-8")
    assert page == config_reference.reference(), (
        "python -m tallymark.broker.reference.settings_page > docs/broker-settings.md"
    )


def test_the_page_has_every_setting_and_every_config() -> None:
    page = config_reference.reference()
    for field in BrokerSettings.model_fields:
        assert f"| `{kafka_name(field)}`" in page
    for name in RULES:
        assert f"| `{name}` |" in page


def test_sources_and_synonyms_are_those_that_kafka_gives() -> None:
    """A tool that compares a topic of Apache Kafka 4 with its copy here found differences where
    nothing was set: there min.insync.replicas is a default of the whole cluster, and retention.ms
    has no synonym, since brokers have no log.retention.ms by default."""

    def told(
        settings: BrokerSettings, **overrides: str
    ) -> dict[str, tuple[str | None, int, list[int]]]:
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        return {
            each.name: (each.value, each.source, [synonym.source for synonym in each.synonyms])
            for each in describe_topic(settings, named)
        }

    unset = told(BrokerSettings())
    assert unset["min.insync.replicas"] == ("1", 3, [3, 5])
    assert unset["retention.ms"] == ("604800000", 5, [])
    assert unset["segment.ms"] == ("604800000", 5, [])
    assert unset["flush.ms"][1:] == (5, [])
    assert unset["retention.bytes"] == ("-1", 5, [5])
    own = told(BrokerSettings(), retention_ms="5000", min_insync_replicas="1")
    assert own["retention.ms"] == ("5000", 1, [1])
    assert own["min.insync.replicas"] == ("1", 1, [1, 3, 5])
    given = told(BrokerSettings(log_retention_ms=7000, log_retention_bytes=9))
    assert given["retention.ms"] == ("7000", 4, [4])
    assert given["retention.bytes"] == ("9", 4, [4, 5])
