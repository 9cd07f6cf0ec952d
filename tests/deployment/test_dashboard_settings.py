"""The settings of the dashboards: what is refused, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tallymark.deployment import AuditSettings, Deployment
from tallymark.deployment.audit import AlertSettings
from tallymark.deployment.dashboards import DashboardSettings


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"path_prefix": "audit"}, "no path"),
        ({"path_prefix": "/audit/"}, "no path"),
        ({"path_prefix": "//evil.example"}, "no path"),
        ({"path_prefix": "/a/../b"}, "no path"),
        ({"path_prefix": '/a"><script>'}, "no path"),
        ({"path_prefix": "/audit\n"}, "no path"),
        ({"masked_fields": ["no good"]}, "no field"),
        ({"snapshot_ms": 10}, "1000"),
        ({"roles": {"operator": ["alice,bob"]}}, "neither"),
        ({"roles": {"operator": ["group:"]}}, "neither"),
        ({"roles": {"operator": ["ali\u202ece"]}}, "neither"),
        ({"proxy": {"trusted_peers": ["proxy.example"]}}, "proxy.example"),
        ({"proxy": {"trusted_peers": ["0.0.0.0/0"]}}, "everyone"),
        ({"proxy": {"trusted_peers": ["::/0"]}}, "everyone"),
        ({"proxy": {"trusted_peers": ["10.0.0.7/24"]}}, "host bits"),
        ({"proxy": {"user_header": "Cookie"}}, "cannot be the name"),
        ({"proxy": {"user_header": "X User"}}, "cannot be the name"),
        ({"proxy": {"user_header": "x-forwarded-groups"}}, "the same"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        DashboardSettings.model_validate(given)


@pytest.mark.parametrize("name", ["email", "user.phone", "orders-*:card.number", "*:ssn", "*_key"])
def test_fields_of_messages_can_be_named_so(name: str) -> None:
    assert DashboardSettings(masked_fields=(name,)).masked_fields == (name,)


def test_links_from_outside_have_the_prefix() -> None:
    """The links of alerts led past the proxy's path, to pages that it does not serve."""
    behind = Deployment(dashboards=DashboardSettings(path_prefix="/audit"))
    assert behind.console_url == "http://127.0.0.1:8080/audit"


def test_an_address_of_its_own_for_links_is_used_as_it_is() -> None:
    alerts = AlertSettings(console_url="https://tallymark.example/audit/")
    found = Deployment(
        audit=AuditSettings(alerts=alerts), dashboards=DashboardSettings(path_prefix="/other")
    )
    assert found.console_url == "https://tallymark.example/audit"


def test_by_default_pages_only_show() -> None:
    assert not DashboardSettings().actions
    assert DashboardSettings().roles.operator == ()
    assert DashboardSettings().proxy.trusted_peers == ()
