"""A name that the cluster does not have, in every command that takes one.

A stranger misspelt a topic. ``tallymark log-dirs --topic nosuch`` and ``offsets check --topic
nosuch`` printed an empty table and ended with 0, as if all were well; seven commands answered
"UNKNOWN_TOPIC_OR_PARTITION: this broker does not host the topic or partition", and ``transactions
find-hanging --broker 99`` said to see a command that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner
from commands import elsewhere as elsewhere

from tallymark.cli.main import command as root
from tallymark.client import Admin, Producer
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import CODES, KafkaError, TallymarkError, UserError
from tallymark.shell.absent import absent, asking_about, explained
from tallymark.shell.output import FAILED, PARTLY
from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process

TOPIC = "there is no topic nosuch; see 'tallymark topics list'"
GROUP = "there is no group nosuch; see 'tallymark groups list'"
BROKER = "there is no broker 99; see 'tallymark cluster'"
PARTITION = "clicks has no partition 9; it has 2, from 0 on"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("clicks", 2)]).check()
        with Producer(bootstrap_servers=running.bootstrap_servers, audit=False) as producer:
            producer.send("clicks", b"1").result()
        yield running


def typed(broker: BrokerThread, line: str) -> tuple[int, str]:
    """The exit code, and what standard error says of ``tallymark LINE``, as the console script has
    them."""
    words = [*line.split(), "--bootstrap-server", broker.bootstrap_servers]
    result = CliRunner().invoke(root, words)
    if isinstance(result.exception, TallymarkError):
        return 1, f"{result.stderr}tallymark: {result.exception}"
    return result.exit_code, result.stderr.strip()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topics describe nosuch", TOPIC),
        ("topics describe clicks nosuch", TOPIC),
        ("topics config nosuch", TOPIC),
        ("topics config nosuch --set retention.ms=1 --dry-run", TOPIC),
        ("topics config 99 --broker", BROKER),
        ("topics grow nosuch --partitions 3 --dry-run", TOPIC),
        ("topics delete nosuch --dry-run", TOPIC),
        ("topics delete-records nosuch --everything --dry-run", TOPIC),
        ("topics delete-records clicks -p 9 --everything --dry-run", PARTITION),
        ("offsets list nosuch", TOPIC),
        ("offsets list clicks nosuch", TOPIC),
        ("offsets list nosuch --time 10m", TOPIC),
        ("offsets check --topic nosuch", TOPIC),
        ("offsets check --group nosuch", GROUP),
        ("groups describe nosuch", GROUP),
        ("groups describe nosuch --members", GROUP),
        ("groups delete nosuch --dry-run", GROUP),
        ("groups reset g --topic nosuch --to-earliest --dry-run", TOPIC),
        ("groups reset g --topic clicks:9 --to-earliest --dry-run", PARTITION),
        ("groups list --state nosuch", "no group is ever in the state 'nosuch'; states are Empty"),
        ("log-dirs --topic nosuch", TOPIC),
        ("log-dirs --topic clicks --topic nosuch", TOPIC),
        ("log-dirs --broker 99", BROKER),
        ("log-dirs --broker 0 --broker 99", BROKER),
        ("elect preferred -t nosuch --dry-run", TOPIC),
        ("elect preferred -t clicks -p 9 --dry-run", PARTITION),
        ("brokers drain 99 --dry-run", "there is no broker 99; live brokers: 0"),
        ("reassign plan --topic nosuch", TOPIC),
        ("reassign plan --to 99", "no broker 99 is registered; live brokers: [0]"),
        (
            "transactions describe nosuch",
            "there is no transactional id nosuch; see 'tallymark transactions list'",
        ),
        ("transactions producers nosuch", TOPIC),
        ("transactions producers clicks -p 9", PARTITION),
        ("transactions find-hanging nosuch", TOPIC),
        ("transactions find-hanging --broker 99", BROKER),
        ("transactions list --state nosuch", "no transaction is ever in the state 'nosuch'"),
        ("consume nosuch -e", TOPIC),
        ("consume clicks -p 9 -e", PARTITION),
        ("export nosuch file.jsonl", TOPIC),
        ("export clicks file.jsonl -p 9 -e", PARTITION),
        ("replay nosuch other", TOPIC),
        ("replay clicks other -p 9", PARTITION),
    ],
)
def test_one_line_says_what_does_not_exist_and_what_to_do(
    broker: BrokerThread, line: str, said: str
) -> None:
    code, told = typed(broker, line)
    assert code in (FAILED, PARTLY)
    assert told.startswith(f"tallymark: {said}"), told
    assert len(told.splitlines()) == 1


def test_commands_that_are_named_in_advice_exist() -> None:
    context = click.Context(root)
    for kind in ("topic", "group", "broker", "user", "transactional id"):
        words = str(absent(kind, "x")).split("'tallymark ")[1].rstrip("'").split()
        named: click.Command = root
        for word in words:
            assert isinstance(named, click.Group)
            found = named.get_command(context, word)
            assert found is not None, words
            named = found


def test_a_topic_that_a_group_has_not_read_is_no_error(broker: BrokerThread) -> None:
    assert typed(broker, "offsets check --topic clicks") == (0, "")
    assert typed(broker, "log-dirs --topic clicks") == (0, "")


def test_an_error_that_is_not_about_the_name_stays_as_it_is() -> None:
    """``topics describe`` said "there is no topic" also where the user may not see it."""
    denied = KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"], "topic clicks")
    assert explained("topic", "clicks", denied) is denied
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"), asking_about("topic", "c"):
        raise denied
    gone = KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], "topic clicks")
    assert isinstance(explained("topic", "clicks", gone), UserError)
    assert explained("group", "clicks", gone) is gone
