"""What a consumer says of itself in its node."""

from __future__ import annotations

import pytest

from tallymark.coordination.consumers.subscriptions import Subscription, decode, encode
from tallymark.errors import UserError


def test_streams_by_topic_are_a_plain_map() -> None:
    subscription = Subscription({"views": 1, "clicks": 2})
    assert encode(subscription) == b'{"clicks":2,"views":1}'
    assert decode(encode(subscription)) == subscription


def test_a_filter_says_that_it_is_one() -> None:
    subscription = Subscription({"click.*": 2}, is_filter=True)
    assert decode(encode(subscription)) == subscription
    assert decode(encode(subscription)).streams_of("clicks") == 2


def test_topics_with_the_names_of_fields_are_topics() -> None:
    subscription = Subscription({"subscription": 1, "pattern": 2, "version": 3})
    assert decode(encode(subscription)) == subscription


def test_the_form_of_apache_kafka_is_read() -> None:
    static = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"17"}'
    assert decode(static) == Subscription({"t": 2})
    listed = b'{"version":1,"subscription":{"t|u":1},"pattern":"white_list","timestamp":"17"}'
    assert decode(listed) == Subscription({"t|u": 1}, is_filter=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"3",
        b"{}",
        b'{"t":"2"}',
        b'{"t":true}',
        b'{"t":0}',
        b'{"version":1,"pattern":"black_list","subscription":{"t":1}}',
        b'{"version":1,"pattern":"filter","subscription":{"(":1}}',
    ],
)
def test_anything_else_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own errors are among them
        decode(data)


def test_a_subscription_to_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="no stream"):
        Subscription({})
    with pytest.raises(UserError, match="no stream"):
        Subscription({"t": 0})
    with pytest.raises(UserError, match="not a regular expression"):
        Subscription({"(": 1}, is_filter=True)
