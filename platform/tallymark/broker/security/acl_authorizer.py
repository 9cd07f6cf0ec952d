"""The authorizer of access-control lists: remembers its decisions, logs its denials."""

from __future__ import annotations

from typing import Final

from tallymark.broker.security.acl_log import DenialLog
from tallymark.broker.security.acl_rules import AclRules
from tallymark.broker.security.authorizer import Who
from tallymark.protocol.acls.words import Operation, ResourceType

_MOST_REMEMBERED: Final = 20_000

Question = tuple[str, str, Operation, ResourceType, str]


class AclAuthorizer:
    """The :class:`~tallymark.broker.security.authorizer.Authorizer` of"""

    def __init__(self, rules: AclRules, denials: DenialLog) -> None:
        self.denials = denials
        self._rules = rules
        self._known: dict[Question, bool] = {}

    @property
    def rules(self) -> AclRules:
        """The current rules."""
        return self._rules

    @rules.setter
    def rules(self, rules: AclRules) -> None:
        self._rules = rules
        self._known = {}

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """See :class:`~tallymark.broker.security.authorizer.Authorizer`."""
        question = (who.principal, who.host, operation, kind, name)
        known = self._known.get(question)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()  # invented names must not fill the memory
            known = self._known[question] = self._rules.may(*question)
        if not (known or quiet):
            self.denials.note(who.principal, who.host, operation, kind, name)
        return known

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """See :class:`~tallymark.broker.security.authorizer.Authorizer`."""
        if self._rules.may_somewhere(who.principal, who.host, operation, kind):
            return True
        self.denials.note(who.principal, who.host, operation, kind, "*")
        return False
