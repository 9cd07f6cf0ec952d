"""Users, and the file that keeps them and the access-control lists of a broker by itself."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.broker.security.acl_log import DenialLog
from tallymark.broker.security.file_store import FileSecurityStore
from tallymark.broker.security.users import Users
from tallymark.errors import KafkaError, UserError
from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.sasl.credential_text import parse_credential, stored_text
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import ScramCredential
from tallymark.net.sasl.user_checks import check_user
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import Operation, Pattern, ResourceType

ALICE = ScramCredential.of_password(SCRAM_SHA_256, "secret", b"salt" * 5, 5000)
KNOWN = Users({"alice": {SCRAM_SHA_256: stored_text(ALICE)}}, b"key")


def test_a_credential_is_stored_in_kafkas_words() -> None:
    text = stored_text(ALICE)
    assert text.startswith("salt=c2FsdHNhbHRzYWx0c2FsdHNhbHQ=,stored_key=")
    assert text.endswith(",iterations=5000")
    assert parse_credential(SCRAM_SHA_256, text) == ALICE


@given(st.text(max_size=80))
def test_other_text_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match="no credential"):
        parse_credential(SCRAM_SHA_256, text)


def test_a_stored_credential_that_is_not_safe_is_none() -> None:
    weak = stored_text(ScramCredential.of_password(SCRAM_SHA_256, "secret", b"salt", 100))
    assert Users({"alice": {SCRAM_SHA_256: weak}}, b"key").credentials == {}


@settings(max_examples=20)
@given(st.text(min_size=1, max_size=20))
def test_a_user_that_is_not_there_looks_like_one_that_is(name: str) -> None:
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        false = KNOWN.credential(name, mechanism)
        assert false == KNOWN.credential(name, mechanism), "twice the same"
        assert (len(false.salt), false.iterations) == (len(ALICE.salt), ALICE.iterations)
        assert false.salt != Users({}, b"other").credential(name, mechanism).salt


def test_plain_checks_the_stored_credential() -> None:
    assert KNOWN.fits("alice", "secret")
    assert not KNOWN.fits("alice", "other")
    assert not KNOWN.fits("bob", "secret")


def test_names_that_nobody_can_have() -> None:
    for name in ("", "a\nb", "<default>", "x" * 256):
        with pytest.raises(KafkaError, match="UNACCEPTABLE_CREDENTIAL"):
            check_user(name)
    check_user("CN=älice, O=x/y")


def an_acl(name: str) -> Acl:
    everybody = "User:*"
    return Acl(ResourceType.TOPIC, name, Pattern.LITERAL, everybody, "*", Operation.READ, True)


def test_the_file_keeps_what_it_was_given(tmp_path: Path) -> None:
    store = FileSecurityStore(tmp_path / "data")
    assert store.read().users == {}
    store.alter_user("alice", {"a": "1", "b": "2"})
    store.alter_user("alice", {"a": None, "c": "3"})
    store.alter_client("app", {"producer_byte_rate": "10"})
    store.alter_user_client("alice", "app", {"producer_byte_rate": "11"})
    store.alter_user_client("bob", "app", {"producer_byte_rate": "12"})
    store.alter_user_client("bob", "app", {"producer_byte_rate": None})
    store.alter_broker("0", {"log.retention.ms": "5"})
    store.alter_group("g", {"consumer.session.timeout.ms": "46000"})
    store.change_acls(add=[an_acl("x"), an_acl("y"), an_acl("x")])
    store.change_acls(remove=[an_acl("x"), an_acl("z")])
    again = FileSecurityStore(tmp_path / "data").read()
    assert again.users == {"alice": {"b": "2", "c": "3"}}
    assert again.clients == {"app": {"producer_byte_rate": "10"}}
    assert again.user_clients == {("alice", "app"): {"producer_byte_rate": "11"}}
    assert again.brokers == {"0": {"log.retention.ms": "5"}}
    assert again.groups == {"g": {"consumer.session.timeout.ms": "46000"}}
    assert again.acls == {an_acl("y")}
    assert again.salt_key == store.read().salt_key
    store.alter_user("alice", {"b": None, "c": None})
    assert store.read().users == {}
    file = tmp_path / "data" / "security.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_of_an_older_broker_is_read(tmp_path: Path) -> None:
    kept = {"salt_key": "00", "users": {}, "clients": {}, "acls": []}
    (tmp_path / "security.json").write_text(json.dumps(kept))
    store = FileSecurityStore(tmp_path)
    assert (store.read().brokers, store.read().user_clients) == ({}, {})
    store.alter_broker("<default>", {"log.retention.ms": "5"})
    assert store.read().brokers == {"<default>": {"log.retention.ms": "5"}}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"salt_key": "zz"}', "\0"])
def test_a_file_that_is_not_understood_stops_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "security.json").write_text(content)
    with pytest.raises(UserError, match=r"security\.json"):
        FileSecurityStore(tmp_path).read()


def test_a_change_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.broker.security.file_store.LOOK_SECONDS", 0.01)
    heard = threading.Event()
    cancel = FileSecurityStore(tmp_path).watch(heard.set)
    try:
        FileSecurityStore(tmp_path).alter_user("alice", {"a": "1"})
        assert heard.wait(30)
    finally:
        cancel()


def test_denials_are_told_once_in_a_while_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    denials = DenialLog(LogRate(10, lambda: now[0]))
    deny = ("User:ann", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "clicks")
    for _ in range(5):
        denials.note(*deny)
    assert caplog.text.count("denied principal=User:ann host=10.0.0.1 operation=READ") == 1
    now[0] = 11.0
    denials.note(*deny)
    assert "repeated=4" in caplog.text
    assert denials.counts[Operation.READ, ResourceType.TOPIC] == 6


def test_connections_are_counted_over_all_listeners() -> None:
    quota = ConnectionQuota(3, 2)
    assert quota.take("a") is None
    assert quota.take("a") is None
    assert "max.connections.per.ip" in (quota.take("a") or "")
    assert quota.take("b") is None
    assert "(max.connections)" in (quota.take("c") or "")
    quota.give_back("a")
    assert quota.take("a") is None
    assert (quota.open, quota.refused) == (3, 2)
