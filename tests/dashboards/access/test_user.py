"""Who may look and who may change something."""

from __future__ import annotations

from tallymark_dashboards.access.user import VIEWER, Role, User


def test_without_a_login_everyone_may_look_and_change_nothing() -> None:
    assert VIEWER.may_view
    assert not VIEWER.may_act


def test_an_operator_may_also_look() -> None:
    user = User.of("alice", [Role.OPERATOR])
    assert user.may_view
    assert user.may_act


def test_an_operator_without_a_name_changes_nothing() -> None:
    """Each change is logged with who made it, so there must be a who."""
    assert not User.of("", [Role.OPERATOR]).may_act


def test_a_user_without_roles_sees_nothing() -> None:
    user = User.of("mallory", [])
    assert not user.may_view
    assert not user.may_act
