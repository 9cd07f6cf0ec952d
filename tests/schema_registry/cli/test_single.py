"""``tallymark schema``: single schemas, and folders of them, in our registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import run_command

from tallymark.errors import UserError
from tallymark_schema_registry.cli import command as schema
from tallymark_schema_registry.embedded import RegistryServer

RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
GROWN = RECORD.replace("}]", '},{"name":"b","type":"int"}]')
DEFAULTED = RECORD.replace("}]", '},{"name":"b","type":"int","default":0}]')


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("TALLYMARK_REGISTRY_USER", raising=False)
    monkeypatch.delenv("TALLYMARK_REGISTRY_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with RegistryServer("sqlite:///registry.db") as server:
        monkeypatch.setenv("TALLYMARK_REGISTRY", server.url)
        yield server.url


def said(*words: str, code: int = 0) -> str:
    return run_command(schema, *words, code=code).stdout


def told(*words: str, code: int = 0) -> Any:
    return json.loads(said(*words, "--json", code=code))


def file(text: str, name: str = "one.avsc") -> str:
    """The name of a file with this text."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def test_register_and_what_is_said(url: str) -> None:
    assert said("register", "s", file(RECORD), "--dry-run") == "s: would be registered\n"
    assert said("register", "s", file(RECORD)) == "s version 1, id 1: registered\n"
    assert said("register", "s", file(f" {RECORD} ")) == "s version 1, id 1: was there already\n"
    assert told("register", "s", file(DEFAULTED)) == {
        "subject": "s", "compatible": True, "done": "registered", "version": 2, "id": 2,
        "reasons": [], "warnings": [], "messages": [],
    }  # fmt: skip


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_incompatible_schema_exits_with_1_and_the_reasons(
    url: str, dry_run: tuple[str, ...]
) -> None:
    said("register", "s", file(RECORD))
    words = ("register", "s", file(GROWN), *dry_run)
    text = said(*words, code=1)
    assert text.startswith("s: incompatible\n  ")
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in text
    answer = told(*words, code=1)
    assert answer["compatible"] is False
    assert answer["messages"]
    assert said("get", "s") == f"{RECORD}\n"


def test_get_by_version_and_by_id(url: str) -> None:
    said("register", "a/b", file(RECORD))
    said("register", "a/b", file(DEFAULTED))
    assert said("get", "a/b") == said("get", "a/b", "2") == said("get", "--id", "2")
    assert said("get", "a/b", "1") == f"{RECORD}\n"
    assert json.loads(said("get", "a/b", "1", "--pretty")) == json.loads(RECORD)
    assert told("get", "a/b", "1") == {
        "subject": "a/b", "version": 1, "id": 1, "type": "AVRO", "deleted": False, "schema": RECORD
    }  # fmt: skip
    with pytest.raises(UserError, match="there is no version 7 of a/b") as caught:
        said("get", "a/b", "7")
    assert caught.value.exit_code == 1
    with pytest.raises(UserError, match="40403: Schema 9 not found") as missing:
        said("get", "--id", "9")
    assert missing.value.exit_code == 1
    for words in (("get",), ("get", "s", "--id", "1"), ("get", "s", "x")):
        said(*words, code=2)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("get", "nosuch"), "there is no subject nosuch; see 'tallymark schema list'"),
        (("get", "nosuch", "2"), "there is no subject nosuch; see 'tallymark schema list'"),
        (("get", "s", "7"), "there is no version 7 of s; see 'tallymark schema list --all s'"),
        (("get", "gone"), "gone was deleted; see 'tallymark schema list --deleted gone'"),
        (("diff", "nosuch", "1", "2"), "there is no subject nosuch; see 'tallymark schema list'"),
        (("diff", "s", "1", "7"), "no version 7 of s; see 'tallymark schema list --all s'"),
        (("get", "--id", "9"), "see 'tallymark schema list'"),
        (("delete", "nosuch", "--yes"), "see 'tallymark schema list'"),
        (("delete", "s", "7", "--yes"), "see 'tallymark schema list'"),
        (("undelete", "nosuch"), "nosuch has no version that was softly deleted; see"),
    ],
)
def test_what_does_not_exist_is_named_with_where_to_look(
    url: str, words: tuple[str, ...], advice: str
) -> None:
    """A stranger misspelt a subject: "there is no version latest of nosuch", said ``get``, and
    ``delete`` and ``get --id`` showed the registry's answer and not where to look."""
    said("register", "s", file(RECORD))
    said("register", "gone", file(RECORD))
    said("delete", "gone", "--yes")
    with pytest.raises(UserError) as caught:
        said(*words)
    assert advice in str(caught.value)
    assert caught.value.exit_code == 1
    assert len(str(caught.value).splitlines()) == 1


def test_list(url: str) -> None:
    said("register", "b", file(RECORD))
    said("register", "b", file(DEFAULTED))
    said("register", "a", file(RECORD))
    assert said("list") == "SUBJECT\tVERSION\tID\tTYPE\na\t1\t1\tAVRO\nb\t2\t2\tAVRO\n"
    assert [row["version"] for row in told("list", "b", "--all")] == [1, 2]
    assert told("list", "x") == []


def test_diff_of_versions_and_of_a_file(url: str) -> None:
    said("register", "s", file(RECORD))
    said("register", "s", file(DEFAULTED))
    assert said("diff", "s", "1", "2") == "+ R.b: field int, default 0\n"
    assert said("diff", "s", "--file", file(RECORD)) == "- R.b: field int, default 0\n"
    assert said("diff", "s", "1", "--file", file(RECORD)) == ""
    (change,) = told("diff", "s", "1", "2")
    assert (change["action"], change["path"]) == ("added", "/fields/1")
    lines = said("diff", "s", "--text", "--file", file(RECORD)).splitlines()
    assert lines[:2] == ["--- s version 2", "+++ one.avsc"]
    assert '-      "default": 0' in lines
    said("diff", "s", code=2)
    with pytest.raises(UserError, match="a schema cannot be read"):
        said("diff", "s", "--file", file("{}"))


def test_config(url: str) -> None:
    assert said("config") == "compatibilityLevel=BACKWARD\n"
    assert said("config", "s") == "compatibilityLevel=BACKWARD (inherited)\n"
    assert said("config", "s", "--set", "compatibility=FULL") == "compatibilityLevel=FULL\n"
    assert told("config", "s") == {
        "subject": "s", "inherited": False, "config": {"compatibilityLevel": "FULL"}
    }  # fmt: skip
    assert said("config", "s", "--delete").endswith("BACKWARD (inherited)\n")
    with pytest.raises(UserError, match="42203: Invalid compatibility level") as caught:
        said("config", "s", "--set", "compatibility=SIDEWAYS")
    assert caught.value.exit_code == 1
    said("config", "s", "--set", "x", code=2)
    said("config", "s", "--set", "x=1", "--delete", code=2)


def test_mode(url: str) -> None:
    assert said("mode") == "READWRITE\n"
    assert told("mode", "s")["mode"] == "READWRITE"


def test_check_a_folder_and_apply_it(url: str) -> None:
    file(RECORD, "all/orders-value.avsc")
    file('"string"', "all/deep/orders-key.avsc")
    assert said("check", "all") == (
        "PATH\tSUBJECT\tRESULT\tVERSION\n"
        "deep/orders-key.avsc\torders-key\tcompatible\t-\n"
        "orders-value.avsc\torders-value\tcompatible\t-\n"
    )
    assert said("list") == "SUBJECT\tVERSION\tID\tTYPE\n", "it changes nothing"
    assert [row["result"] for row in told("apply", "all")] == ["registered", "registered"]
    assert [row["version"] for row in told("apply", "all")] == [1, 1]
    assert {row["result"] for row in told("check", "all")} == {"unchanged"}


def test_one_that_is_incompatible_keeps_all_from_being_applied(url: str) -> None:
    file(RECORD, "all/a.avsc")
    said("apply", "all")
    file(GROWN, "all/a.avsc")
    file(RECORD, "all/0.avsc")
    result = run_command(schema, "apply", "all", code=1)
    assert "a.avsc\ta\tincompatible\t-\n" in result.stdout
    assert "a.avsc: " in result.stderr
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in result.stderr
    (new, bad) = told("check", "all", code=1)
    assert (new["result"], bad["result"]) == ("compatible", "incompatible")
    assert bad["messages"]
    assert [row["subject"] for row in told("list")] == ["a"]


def test_a_schema_that_is_none_is_told_as_one_of_many(url: str) -> None:
    file('{"type":"record","name":"R","fields":[{"name":"a-b","type":"int"}]}', "all/bad.avsc")
    file(RECORD, "all/good.avsc")
    result = run_command(schema, "check", "all", code=1)
    assert "bad.avsc\tbad\tincompatible" in result.stdout
    assert "good.avsc\tgood\tcompatible" in result.stdout
    assert "a-b" in result.stderr


def test_subjects_by_a_map_or_a_format(url: str) -> None:
    file(RECORD, "all/x/orders.avsc")
    file('"string"', "all/y/orders.avsc")
    with pytest.raises(UserError, match=r"x/orders.avsc and y/orders.avsc are both the subject"):
        said("check", "all")
    file(json.dumps({"y/orders.avsc": "orders-key"}), "map.json")
    words = ("check", "all", "--map", "map.json", "--subject-format", "{name}-value")
    assert [row["subject"] for row in told(*words)] == ["orders-value", "orders-key"]
    (one,) = told("check", "all/x/orders.avsc", "--subject-format", "{name}-value")
    assert (one["path"], one["subject"]) == ("orders.avsc", "orders-value")
    for wrong, says in (("[]", "no object"), ('{"z": "s"}', "names z"), ("{", "not JSON")):
        with pytest.raises(UserError, match=says.replace("no object", "not an object")):
            said("check", "all", "--map", file(wrong, "map.json"))
    said("check", "all", "--subject-format", "x", code=2)


@pytest.mark.parametrize("path", ["nothing", "empty"])
def test_nothing_to_check(url: str, path: str) -> None:
    """A pipeline that checks a folder that moved away must not be green."""
    Path("empty").mkdir()
    with pytest.raises(UserError, match="there is no") as caught:
        said("check", path)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [("list",), ("get", "s"), ("config",), ("mode",), ("register", "s", "one.avsc"),
     ("check", "one.avsc"), ("diff", "s", "1", "2"), ("delete", "s", "--yes")],
)  # fmt: skip
def test_no_registry_exits_with_3(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tallymark_schema_registry.cli.connection._ATTEMPTS", 1)
    file(RECORD)
    with pytest.raises(UserError, match="connect failed") as caught:
        said(*words, "--registry", "http://127.0.0.1:1")
    assert caught.value.exit_code == 3


def test_delete_asks_first(url: str) -> None:
    said("register", "s", file(RECORD))
    with pytest.raises(UserError, match="to delete all versions of s has to be confirmed"):
        said("delete", "s")
    result: Result = run_command(schema, "delete", "s", "1", "--permanent", "--dry-run")
    assert result.stderr == "would delete s version 1 for good\n"
    assert said("get", "s") == f"{RECORD}\n", "nothing was deleted"


@pytest.mark.parametrize("question", [("--dry-run",), ()])
def test_what_does_not_exist_cannot_be_deleted_even_dryly(
    url: str, question: tuple[str, ...]
) -> None:
    """A stranger misspelt a subject, and ``--dry-run`` said that it would be deleted."""
    said("register", "s", file(RECORD))
    said("register", "gone", file(RECORD))
    said("delete", "gone", "--yes")
    for words, why in (
        (("nosuch",), "there is no subject nosuch; see 'tallymark schema list'"),
        (("s", "7"), "there is no version 7 of s; see 'tallymark schema list --all s'"),
        (("s", "7", "--permanent"), "there is no version 7 of s; see"),
        (("gone",), "gone was deleted; see 'tallymark schema list --deleted gone'"),
    ):
        with pytest.raises(UserError) as caught:
            said("delete", *words, *question)
        assert why in str(caught.value)
    dry = run_command(schema, "delete", "gone", "--permanent", "--dry-run")
    assert dry.stderr == "would delete all versions of gone for good\n"


def test_delete_and_undelete(url: str) -> None:
    said("register", "s", file(RECORD))
    said("register", "s", file(DEFAULTED))
    assert said("delete", "s", "1", "--yes") == "s: deleted 1\n"
    assert [row["version"] for row in told("list", "s", "--all")] == [2]
    assert [row["deleted"] for row in told("list", "s", "--all", "--deleted")] == [True, False]
    assert said("get", "s", "1", "--deleted") == f"{RECORD}\n"
    assert told("get", "s", "1", "--deleted")["deleted"] is True
    assert said("undelete", "s", "1") == "s: restored 1\n"
    assert told("delete", "s", "--yes") == {"subject": "s", "deleted": [1, 2]}
    assert said("undelete", "s") == "s: restored 1, 2\n"
    with pytest.raises(UserError, match="s has no version that was softly deleted"):
        said("undelete", "s")
    with pytest.raises(UserError, match="40407") as caught:
        said("delete", "s", "1", "--permanent", "--yes")
    assert caught.value.exit_code == 1
    said("delete", "s", "--yes")
    assert told("delete", "s", "--permanent", "--yes")["deleted"] == [1, 2]
    assert told("list", "--deleted") == []


def test_modes_are_set_and_removed(url: str) -> None:
    assert said("mode", "--set", "readonly") == "READONLY\n"
    with pytest.raises(UserError, match="42205"):
        said("register", "s", file(RECORD))
    assert said("mode", "s") == "READONLY (inherited)\n"
    assert said("mode", "s", "--set", "READWRITE") == "READWRITE\n"
    said("register", "s", file(RECORD))
    assert said("mode", "s", "--delete") == "READONLY (inherited)\n"
    with pytest.raises(UserError, match="42204"):
        said("mode", "--set", "SIDEWAYS")
    with pytest.raises(UserError, match="42205"):
        said("mode", "--set", "IMPORT")
    assert said("mode", "--set", "IMPORT", "--force") == "IMPORT\n"
    said("mode", "--set", "IMPORT", "--delete", code=2)


def test_a_reference_is_given_by_hand(url: str) -> None:
    said("register", "lines", file('{"type":"fixed","name":"x.Line","size":4}'))
    order = file('{"type":"record","name":"x.Order","fields":[{"name":"l","type":"x.Line"}]}')
    with pytest.raises(UserError, match="42201"):
        said("register", "orders", order)
    words = ("register", "orders", order, "--reference", "x.Line", "lines", "latest")
    assert said(*words) == "orders version 1, id 2: registered\n"
    assert told("get", "orders")["references"] == [
        {"name": "x.Line", "subject": "lines", "version": 1}
    ]
    with pytest.raises(UserError, match="'x' is no version of lines"):
        said("register", "orders", order, "--reference", "x.Line", "lines", "x")


def test_a_folder_whose_files_use_each_other(url: str) -> None:
    """A new type and who uses it are checked together, before either is registered; a new version
    of it makes a new version of those that use it."""
    money = '{"type":"record","name":"x.Money","fields":[{"name":"amount","type":"long"}]}'
    line = '{"type":"record","name":"Line","namespace":"x","fields":[{"name":"m","type":"Money"}]}'
    order = (
        '{"type":"record","name":"x.Order","fields":[{"name":"l","type":'
        '{"type":"array","items":"x.Line"}},{"name":"sum","type":"x.Money"}]}'
    )
    for name, text in (("a-order", order), ("line", line), ("z-money", money)):
        file(text, f"all/{name}.avsc")
    checked = told("check", "all")
    assert [(row["subject"], row["result"]) for row in checked] == [
        ("z-money", "compatible"), ("line", "compatible"), ("a-order", "compatible")
    ]  # fmt: skip
    assert told("list") == []
    assert [row["version"] for row in told("apply", "all")] == [1, 1, 1]
    assert [row["result"] for row in told("apply", "all")] == ["unchanged"] * 3
    assert told("get", "a-order")["references"] == [
        {"name": "x.Line", "subject": "line", "version": 1},
        {"name": "x.Money", "subject": "z-money", "version": 1},
    ]
    wrong = money.replace("}]", '},{"name":"unit","type":"string"}]')
    file(wrong, "all/z-money.avsc")
    results = {row["subject"]: row["result"] for row in told("check", "all", code=1)}
    assert set(results.values()) == {"incompatible"}, "also those that use it"
    file(wrong.replace('"string"', '"string","default":"EUR"'), "all/z-money.avsc")
    assert [row["result"] for row in told("apply", "all")] == ["registered"] * 3
    latest = [(row["subject"], row["version"]) for row in told("list")]
    assert latest == [("a-order", 2), ("line", 2), ("z-money", 2)]
    changes = said("diff", "a-order", "1", "2").splitlines()
    assert changes == ['+ Order.l[].m.unit: field string, default "EUR"']


def test_reasons_have_rule_path_version_and_what_to_do(url: str) -> None:
    said("register", "s", file(RECORD))
    (reason,) = told("check", file(GROWN, "s.avsc"), code=1)[0]["reasons"]
    assert reason["rule"] == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert reason["version"] == 1
    assert "/fields/1" in reason["text"]
    assert "default" in reason["text"]


def test_warnings_stop_nothing(url: str) -> None:
    """A smaller precision fits by Avro's rules, and loses what does not fit into it."""
    decimal = '{"type":"bytes","logicalType":"decimal","precision":%d,"scale":2}'
    said("register", "s", file(decimal % 9))
    narrow = file(decimal % 5, "s.avsc")
    result = run_command(schema, "check", narrow)
    assert "s.avsc\ts\tcompatible\t-\n" in result.stdout
    assert result.stderr.startswith("s.avsc: warning: DECIMAL_PRECISION_REDUCED: ")
    (row,) = told("check", narrow)
    assert (row["reasons"], row["messages"]) == ([], [])
    assert row["warnings"][0]["rule"] == "DECIMAL_PRECISION_REDUCED"
    assert "  warning: " in said("register", "s", narrow, "--dry-run")
