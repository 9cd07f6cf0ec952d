"""What ``tallymark attach`` decides of what it found: settings, refusals, warnings, log-ins."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tallymark.client.core.security.security import SecuritySettings
from tallymark.deployment import Deployment, load
from tallymark.deployment.places import places as addresses_in
from tallymark.errors import UserError
from tallymark.processes.supervisor.plan import plan as processes
from tallymark_audit.attach.found import BrokerFound, ClusterFound, TopicFound
from tallymark_audit.attach.inspection import MOST_TOPICS, first_topics, keeps_headers, release_of
from tallymark_audit.attach.logins import log_in, write_secrets
from tallymark_audit.attach.plan import make_attach_plan, settings_of
from tallymark_audit.attach.request import (
    AttachRequest,
    ClusterRequest,
    checked_topics,
    parse_clusters,
)
from tallymark_audit.attach.resume import differences
from tallymark_audit.attach.texts import found_lines, settings_text
from tallymark_audit.attach.unclaimed import application_lines, unclaimed_lines
from tallymark_audit.model.edges import derive_edges

NOW = 1_700_000_000_000


def asked(upstream: str = "kafka:9092", *downstream: str, **more: object) -> AttachRequest:
    first, *others = map(ClusterRequest, parse_clusters(upstream, downstream))
    return replace(AttachRequest(first, tuple(others)), **more)  # type: ignore[arg-type]


def found(name: str = "kafka", *topics: str, **more: object) -> ClusterFound:
    host = f"{name}-1.example"
    usual = ClusterFound(
        name,
        f"id of {name}",
        (BrokerFound(1, host, 9092), BrokerFound(2, host, 9093)),
        "4.0",
        {topic: TopicFound(3, timestamp_type="CreateTime", records=10) for topic in topics},
        has_audit_topic=True,
    )
    return replace(usual, **more)  # type: ignore[arg-type]


def test_nothing_of_theirs_is_started(tmp_path: Path) -> None:
    """Somebody has a Kafka and wants the audit beside it: collectors and dashboards are all that is
    ours, and MirrorMaker does its work as before."""
    two = [found("kafka", "clicks"), found("other", "clicks")]
    deployment = settings_of(asked("kafka:9092", "other:9092"), two)
    names = ["collector-kafka", "collector-other", "dashboards"]
    assert [one.name for one in processes(deployment)] == names
    assert [edge.name for edge in derive_edges(deployment)] == [
        "producer-to-kafka",
        "producer-to-other",
        "kafka-to-other",
    ]
    text = settings_text(deployment)
    path = tmp_path / "tallymark.toml"
    path.write_text(text)
    assert load(path) == deployment
    where = addresses_in(tomllib.loads(text))
    assert where is not None
    assert [one.name for one in processes(where)] == names
    brokers = tomllib.loads(text)["clusters"][0]["brokers"]
    assert brokers[1] == {"id": 2, "host": "kafka-1.example", "port": 9093}


def test_clusters_are_called_after_their_hosts() -> None:
    names = [
        one.name
        for one in parse_clusters("kafka-1.dc.example:9092", ["10.0.0.7:9092", "a:1", "a:2"])
    ]
    assert names == ["kafka-1", "downstream", "a", "a-2"]
    assert parse_clusters("west=10.0.0.1:9092,10.0.0.2:9092", [])[0].name == "west"


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        (("kafka",), "'kafka' is not host:port"),
        (("kafka:70000",), "'kafka:70000' has no valid port"),
        (("West=kafka:9092",), "a cluster cannot be called 'West'"),
        (("producer=kafka:9092",), "a cluster cannot be called 'producer'"),
        (("a=kafka:1", "a=other:1"), "two clusters are called a"),
        (("kafka:9092", "kafka:9092"), "kafka:9092 is given for kafka and for kafka-2"),
    ],
)
def test_addresses_that_cannot_be(addresses: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError) as refused:
        asked(*addresses)
    assert said in str(refused.value)


def test_one_cluster_by_two_addresses_is_no_downstream() -> None:
    """Two names of the same cluster: a hop from it into itself would always be COMPLETE."""
    two = [found("kafka", cluster_id="x"), found("other", cluster_id="x")]
    deployment = settings_of(asked("kafka:9092", "other:9092"), two)
    with pytest.raises(UserError, match=r"kafka and other are the same cluster \(id x\)"):
        make_attach_plan(deployment, two)


def test_a_broker_that_is_not_where_it_says() -> None:
    """The bootstrap address answers, and advertised.listeners names a host of somebody's laptop."""
    brokers = (BrokerFound(1, "kafka", 9092), BrokerFound(2, "localhost", 9092, "refused"))
    one = found(brokers=brokers)
    with pytest.raises(UserError, match=r"its broker 2 is at localhost:9092.*advertised.listeners"):
        make_attach_plan(settings_of(asked(), [one]), [one])


def test_rights_that_are_missing() -> None:
    one = found(refusals=("no right to use the group tallymark-audit-kafka",))
    with pytest.raises(UserError, match=r"the audit may not work on kafka: no right to use the gr"):
        make_attach_plan(settings_of(asked(), [one]), [one])
    one = found(has_audit_topic=False, creation="CLUSTER_AUTHORIZATION_FAILED: not authorized")
    with pytest.raises(UserError, match=r"it may not be made: CLUSTER_AUTH.*retention\.ms=3024"):
        make_attach_plan(settings_of(asked(), [one]), [one])


def test_the_audit_topic_is_made_where_it_is_not() -> None:
    one = found(has_audit_topic=False)
    (topic,) = make_attach_plan(settings_of(asked(), [one]), [one]).to_make
    assert (topic.cluster, topic.replicas) == ("kafka", 2)
    assert make_attach_plan(settings_of(asked(), [found()]), [found()]).to_make == ()


def test_broker_time_is_warned_of_with_what_it_does_to_windows() -> None:
    usual = TopicFound(1, timestamp_type="CreateTime")
    topics = {"clicks": TopicFound(1, timestamp_type="LogAppendTime"), "orders": usual}
    one = found(topics=topics)
    (line,) = make_attach_plan(settings_of(asked(), [one]), [one]).warnings
    assert line.startswith("kafka: clicks has message.timestamp.type=LogAppendTime: the broker's")
    assert "claimed in one and counted in the next" in line
    assert "tallymark topics config --set message.timestamp.type=CreateTime clicks" in line
    none = make_attach_plan(settings_of(asked(topics="orders"), [one]), [one]).warnings
    assert none == ()


def test_topics_that_may_not_be_read_are_named() -> None:
    usual = TopicFound(1, timestamp_type="CreateTime")
    one = found(topics={"secret": TopicFound(1, readable=False), "clicks": usual})
    (line,) = make_attach_plan(settings_of(asked(), [one]), [one]).warnings
    assert line.startswith("kafka: secret has no right to be read")


@pytest.mark.parametrize(
    ("there", "rename"),
    [
        (("clicks", "orders"), "{topic}"),
        (("west.clicks", "west.orders", "own"), "west.{topic}"),
        (("clicks", "west.clicks"), "{topic}"),
        ((), "{topic}"),
    ],
)
def test_copies_are_called_as_they_are_found(there: tuple[str, ...], rename: str) -> None:
    """MirrorMaker 2 puts the name of the source before a topic's, unless it is told not to."""
    two = [found("kafka", "clicks", "orders"), found("other", *there)]
    (mirror,) = settings_of(asked("kafka:9092", "other:9092"), two).mirrors
    assert (mirror.rename, mirror.embedded) == (rename, False)


def test_topics_that_nobody_copies_are_left_out_and_said() -> None:
    two = [found("kafka", "clicks", "local.only"), found("other", "clicks")]
    deployment = settings_of(asked("kafka:9092", "other:9092"), two)
    (mirror,) = deployment.mirrors
    assert mirror.copies("clicks")
    assert mirror.copies("localXonly")
    assert not mirror.copies("local.only")
    (line,) = make_attach_plan(deployment, two).warnings
    assert line.startswith("kafka-to-other: local.only has no copy on other, and is left out")


def test_before_the_first_copy_every_topic_is_waited_for() -> None:
    two = [found("kafka", "clicks"), found("other")]
    deployment = settings_of(asked("kafka:9092", "other:9092"), two)
    assert deployment.mirrors[0].copies("clicks")
    _, line = make_attach_plan(deployment, two).warnings
    assert line.startswith("kafka-to-other: clicks has no copy called clicks on other yet")


@pytest.mark.parametrize("wrong", [{"rename": "copy"}, {"rename": "{unknown}"}])
def test_options_that_cannot_be(wrong: dict[str, str]) -> None:
    """The message was the last line of pydantic's: an address of its documentation."""
    two = [found("kafka", "clicks"), found("other")]
    with pytest.raises(UserError, match="the renaming cannot be read") as caught:
        settings_of(asked("kafka:9092", "other:9092", **wrong), two)
    assert "pydantic" not in str(caught.value)


def test_topics_that_are_no_regular_expression() -> None:
    """The cluster was looked at first, and then the message was an address of pydantic's
    documentation."""
    assert checked_topics("shop[.].*") == "shop[.].*"
    with pytest.raises(UserError, match=r"--topics 'prod\[' is not a regular expression: untermin"):
        checked_topics("prod[")


def test_of_many_topics_those_that_are_audited_are_looked_into() -> None:
    """A cluster with 600 topics, attached with --topics for ten near the end of the alphabet: the
    first 500 were looked into, so nothing was said of the ten."""
    names = [f"a{number:03}" for number in range(600)] + ["zz-1", "zz-2"]
    looked_into = first_topics(names, "zz-.*")
    assert (len(looked_into), looked_into[:3]) == (MOST_TOPICS, ["zz-1", "zz-2", "a000"])


def test_topics_that_were_not_looked_into_are_counted() -> None:
    """606 topics with ten records each were "606 topics with 5,000 records", and "and 490 more
    topics" ended the list of what is UNCLAIMED."""
    one = found(
        topics={
            "clicks": TopicFound(1, records=5, looked_at=5, stamped=0, written_at=NOW),
            "far": TopicFound(1, looked_into=False),
        }
    )
    assert found_lines(one)[1].startswith("2 topics, 1 of them looked into, with 5 records; ")
    said = unclaimed_lines(settings_of(asked(), [one]), one, NOW)
    assert said[-1] == (
        "not looked into, so not named here: 1 more topic (--topics chooses which are)"
    )


def test_settings_of_topics_that_may_not_be_read() -> None:
    """Without DescribeConfigs a topic with the broker's time was attached without a word."""
    one = found(topics={"clicks": TopicFound(1, timestamp_type="")})
    (line,) = make_attach_plan(settings_of(asked(), [one]), [one]).warnings
    assert line.startswith("kafka: clicks has settings that we may not read")
    assert "give DescribeConfigs" in line


def test_the_second_start_goes_on_with_what_its_owner_made_of_the_settings() -> None:
    """Between two starts the owner chose other windows and the cluster got a broker more."""
    there = settings_of(asked(), [found()])
    audit = there.audit.model_copy(update={"window_ms": 5000})
    there = there.model_copy(update={"audit": audit})
    grown = found(brokers=(*found().brokers, BrokerFound(3, "kafka-3.example", 9092)))
    assert differences(there, asked(), [grown]) == []
    assert differences(there, asked("kafka=another-name-of-it:9092"), [grown]) == []


@pytest.mark.parametrize(
    ("now", "where", "said"),
    [
        (asked("west=kafka:9092"), None, "its clusters are kafka, not west"),
        (asked("kafka:9092", "b:1"), None, "its clusters are kafka, not kafka, b"),
        (
            asked("kafka=elsewhere:9092"),
            (BrokerFound(1, "elsewhere", 9092),),
            "kafka is at kafka-1.example:9092,kafka-1.example:9093, not at elsewhere:9092",
        ),
        (asked(window_ms=1000), None, "audit.window_ms is 60000, not 1000"),
        (asked(topics="clicks"), None, "audit.topics is '.*', not 'clicks'"),
    ],
)
def test_settings_of_something_else_are_not_gone_on_with(
    now: AttachRequest, where: tuple[BrokerFound, ...] | None, said: str
) -> None:
    there = settings_of(asked(), [found()])
    at = found(brokers=where) if where else found()
    assert differences(there, now, [at, at][: len(now.clusters)]) == [said]


def test_the_settings_of_a_stack_of_ours_are_not_gone_on_with() -> None:
    assert differences(Deployment(), asked(), [found()]) == [
        "its clusters are dc1, dc2, aggregate, not kafka"
    ]


def test_passwords_go_to_files_of_their_own(tmp_path: Path) -> None:
    given: SecuritySettings = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": "ca.pem",
        "ssl_endpoint_identification_algorithm": "",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "ops",
        "sasl_password": "s3cret,=ü",
    }
    made = log_in(given, "kafka", tmp_path / "secrets")
    plain = asked()
    secured = ClusterRequest(plain.upstream.address, made.security)
    deployment = settings_of(replace(plain, upstream=secured), [found()])
    text = settings_text(deployment)
    assert "s3cret" not in text
    write_secrets(made.secrets)
    (path,) = made.secrets
    assert path.read_text(encoding="utf-8") == "s3cret,=ü\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    security = Deployment.model_validate(tomllib.loads(text)).clusters[0].security
    assert security.sasl_password_file == str(path)
    assert security.ssl_truststore_location == str(Path("ca.pem").absolute())
    assert security.ssl_endpoint_identification_algorithm == ""
    assert any("Write on _tallymark_audit" in line for line in application_lines(deployment))
    assert differences(deployment, plain, [found()]) == []  # nothing said: as it stands there


def test_a_log_in_that_settings_cannot_have() -> None:
    with pytest.raises(UserError, match="mend the file of --command-config"):
        log_in({"security_protocol": "SASL", "sasl_password": "hush"}, "kafka", Path("x"))


def test_what_will_be_unclaimed_until_then() -> None:
    one = found(
        topics={
            "bare": TopicFound(
                12, records=1204, producers=2, looked_at=10, written_at=NOW - 3000, stamped=0
            ),
            "half": TopicFound(
                1, records=5, looked_at=5, stamped=2, servers=frozenset({"web-1"}), written_at=NOW
            ),
            "done": TopicFound(1, records=5, looked_at=5, stamped=5, servers=frozenset({"web-2"})),
            "empty": TopicFound(1),
        }
    )
    deployment = settings_of(asked(), [one])
    first, *lines = unclaimed_lines(deployment, one, NOW)
    assert first.startswith("UNCLAIMED at producer-to-kafka until their producers are audited")
    assert lines == [
        "  half: 5 records in 1 partition, the newest 0 s old, a part is stamped by web-1",
        "  bare: 1,204 records in 12 partitions, the newest 3 s old, 2 idempotent producers",
        "audited already: done (by web-2)",
    ]
    assert unclaimed_lines(deployment, found(), NOW) == [
        "nothing is UNCLAIMED at producer-to-kafka yet: no topic has records"
    ]


def test_the_two_lines_name_the_window_where_it_is_another_one() -> None:
    usual = "\n".join(application_lines(settings_of(asked(), [found()])))
    assert "audited(confluent_kafka.Producer(config), config)  # or" in usual
    other = "\n".join(application_lines(settings_of(asked(window_ms=5000), [found()])))
    assert "audited(confluent_kafka.Producer(config), config, window_ms=5000)" in other


def test_the_kafka_that_brokers_speak_as() -> None:
    assert release_of({"FETCH": (4, 17), "METADATA": (0, 13)}) == "4.0"
    assert release_of({"FETCH": (0, 11), "METADATA": (0, 9)}) == "2.3"
    assert release_of({}) == "before 0.11"
    assert not keeps_headers({"FETCH": (0, 3)})
    one = found(topics={"clicks": TopicFound(1, records=1)})
    assert found_lines(one)[1] == "1 topic with 1 record; _tallymark_audit is there"
    assert found_lines(found("kafka", "clicks"))[0] == (
        "2 brokers, speaking as Kafka 4.0, cluster id id of kafka"
    )
