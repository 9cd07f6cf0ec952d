"""The settings of a class, as type checkers, help() and the class itself know them."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
from typing import Any, get_type_hints

import pytest

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.settings import ConsumerOptions, ConsumerSettings
from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.producing.producer import Producer
from tallymark.client.producing.settings import ProducerOptions, ProducerSettings

BOTH = [
    (Producer, ProducerOptions, ProducerSettings),
    (ConsumerConnector, ConsumerOptions, ConsumerSettings),
]


@pytest.mark.parametrize(("cls", "options", "settings"), BOTH)
def test_options_and_settings_have_the_same_names_and_kinds(
    cls: type[Any], options: type[Any], settings: type[Any]
) -> None:
    """A type checker reads the options, the class reads the settings: one that is missing on either
    side would be refused by one and taken by the other."""
    names = [
        name for name in options.__annotations__ if name not in SecuritySettings.__annotations__
    ]
    assert names == [field.name for field in dataclasses.fields(settings)]
    kinds, wanted = get_type_hints(settings), get_type_hints(options)
    assert {name: kinds[name] for name in names} == {name: wanted[name] for name in names}


@pytest.mark.parametrize(("cls", "options", "settings"), BOTH)
def test_help_shows_the_options_with_their_defaults(
    cls: type[Any], options: type[Any], settings: type[Any]
) -> None:
    parameters = inspect.signature(cls).parameters
    assert list(parameters) == [*(f.name for f in dataclasses.fields(settings)), "security"]
    assert parameters["request_timeout_ms"].default in (10_000, 30_000)
    assert "request_timeout_ms: 'float' = 30000" in pydoc.plain(pydoc.render_doc(Producer))


def test_a_setting_that_is_needed_is_named() -> None:
    make: Any = ConsumerConnector
    with pytest.raises(TypeError, match=r"ConsumerConnector\.__init__\(\) missing .*: 'group'"):
        make(bootstrap_servers="h:1")
    assert inspect.signature(make).parameters["group"].default is inspect.Parameter.empty
