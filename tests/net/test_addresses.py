import pytest

from tallymark.errors import UserError
from tallymark.net.addresses import Address, parse_address, parse_addresses


def test_lists_keep_their_order_and_lose_repeats() -> None:
    expected = (Address("b", 9092), Address("a", 9093))
    assert parse_addresses("b:9092, a:9093,b:9092,") == expected
    assert parse_addresses(["b:9092", "a:9093,b:9092"]) == expected


def test_ipv6_is_written_in_brackets() -> None:
    address = parse_address("[::1]:9092")
    assert address == Address("::1", 9092)
    assert str(address) == "[::1]:9092"


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":9092", "::1:9092", "h:0", "h:65536", "h:9x"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_addresses(text) if not text else parse_address(text)
    assert not text or repr(text) in str(caught.value)
