"""Access-control entries: list, create and delete them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import from_controller
from tallymark.protocol import messages
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import checked_acl
from tallymark.protocol.acls.words import (
    ALLOW,
    DENY,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    number_of,
    word_of,
)

_NOT_RETURNED: Final = -(2**31)


def operations_in(bits: int) -> frozenset[str] | None:
    """The words of a field of authorized operations (KIP-430), bit 3 for operation 3; None when the
    broker does not return it."""
    if bits == _NOT_RETURNED:
        return None
    return frozenset(word for word, number in OPERATIONS.items() if bits >> number & 1)


@dataclass(frozen=True, slots=True)
class AclEntry:
    """``principal`` ("User:alice", "User:*") is allowed or denied ``operation`` on a resource, from
    ``host`` ("*": everywhere). With ``pattern`` "prefixed", ``name`` is the beginning of names. The
    cluster's name is "kafka-cluster". The possible words are the keys of the tables in
    :mod:`tallymark.protocol.acls.words`."""

    resource: str
    name: str
    principal: str
    operation: str
    permission: Literal["allow", "deny"] = "allow"
    host: str = "*"
    pattern: str = "literal"


@dataclass(frozen=True, slots=True)
class AclQuery:
    """Selects entries; a field that is None or "any" matches all values. ``pattern`` "match" also
    finds the prefixed and "*" entries that apply to ``name``."""

    resource: str = "any"
    name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern: str = "any"

    @classmethod
    def exactly(cls, entry: AclEntry) -> AclQuery:
        """The query that selects this entry only."""
        return cls(
            entry.resource,
            entry.name,
            entry.principal,
            entry.operation,
            entry.permission,
            entry.host,
            entry.pattern,
        )


def acl_of(entry: AclEntry) -> Acl:
    """The entry with Kafka's numbers; KafkaError INVALID_REQUEST where it makes no sense."""
    return checked_acl(
        RESOURCES[entry.resource],
        entry.name,
        PATTERNS[entry.pattern],
        entry.principal,
        entry.host,
        OPERATIONS[entry.operation],
        ALLOW if entry.permission == "allow" else DENY,
    )


def entry_of(acl: Acl) -> AclEntry:
    """The entry with this module's words."""
    return AclEntry(
        word_of(RESOURCES, acl.kind),
        acl.name,
        acl.principal,
        word_of(OPERATIONS, acl.operation),
        "allow" if acl.allow else "deny",
        acl.host,
        word_of(PATTERNS, acl.pattern),
    )


class AclAdmin(AdminBase):
    """The methods of Admin for access-control entries."""

    def describe_acls(self, query: AclQuery | None = None) -> tuple[AclEntry, ...]:
        """The entries that the query selects; all by default."""
        asked = query or AclQuery()
        request = messages.DescribeAclsRequest(
            resource_type_filter=number_of(RESOURCES, asked.resource, "resource"),
            resource_name_filter=asked.name,
            pattern_type_filter=number_of(PATTERNS, asked.pattern, "pattern"),
            principal_filter=asked.principal,
            host_filter=asked.host,
            operation=number_of(OPERATIONS, asked.operation, "operation"),
            permission_type=number_of(PERMISSIONS, asked.permission, "permission"),
        )
        answer = self._run(self._cluster.ask_any(request), "describing access-control entries")
        if answer.error_code:
            raise refusal(answer.error_code, "access-control entries", answer.error_message)
        return tuple(
            _entry(
                *(one.resource_type, one.resource_name, acl.principal, acl.operation),
                *(acl.permission_type, acl.host, one.pattern_type),
            )
            for one in answer.resources
            for acl in one.acls
        )

    def create_acls(self, entries: Sequence[AclEntry]) -> Results[AclEntry, None]:
        """Add entries; one that is there already succeeds."""

        async def attempt(pending: list[AclEntry]) -> Outcomes[AclEntry, None]:
            def read(response: messages.CreateAclsResponse) -> Outcomes[AclEntry, None]:
                return {
                    entry: refusal(one.error_code, str(entry), one.error_message)
                    if one.error_code
                    else None
                    for entry, one in zip(pending, response.results, strict=False)
                }

            request = messages.CreateAclsRequest(creations=tuple(map(_creation, pending)))
            return await from_controller(self._cluster, request, pending, read)

        return self._settle(entries, attempt, "creating access-control entries")

    def delete_acls(self, queries: Sequence[AclQuery]) -> Results[AclQuery, tuple[AclEntry, ...]]:
        """Remove the entries that the queries select; returns, by query, those removed."""

        async def attempt(
            pending: list[AclQuery],
        ) -> Outcomes[AclQuery, tuple[AclEntry, ...]]:
            def read(
                response: messages.DeleteAclsResponse,
            ) -> Outcomes[AclQuery, tuple[AclEntry, ...]]:
                return {
                    query: refusal(one.error_code, str(query), one.error_message)
                    if one.error_code
                    else tuple(
                        _entry(
                            *(acl.resource_type, acl.resource_name, acl.principal, acl.operation),
                            *(acl.permission_type, acl.host, acl.pattern_type),
                        )
                        for acl in one.matching_acls
                    )
                    for query, one in zip(pending, response.filter_results, strict=False)
                }

            request = messages.DeleteAclsRequest(filters=tuple(map(_filter, pending)))
            return await from_controller(self._cluster, request, pending, read)

        return self._settle(queries, attempt, "deleting access-control entries")


def _creation(entry: AclEntry) -> messages.CreateAclsRequestCreation:
    return messages.CreateAclsRequestCreation(
        resource_type=number_of(RESOURCES, entry.resource, "resource"),
        resource_name=entry.name,
        resource_pattern_type=number_of(PATTERNS, entry.pattern, "pattern"),
        principal=entry.principal,
        host=entry.host,
        operation=number_of(OPERATIONS, entry.operation, "operation"),
        permission_type=number_of(PERMISSIONS, entry.permission, "permission"),
    )


def _filter(query: AclQuery) -> messages.DeleteAclsRequestFilter:
    return messages.DeleteAclsRequestFilter(
        resource_type_filter=number_of(RESOURCES, query.resource, "resource"),
        resource_name_filter=query.name,
        pattern_type_filter=number_of(PATTERNS, query.pattern, "pattern"),
        principal_filter=query.principal,
        host_filter=query.host,
        operation=number_of(OPERATIONS, query.operation, "operation"),
        permission_type=number_of(PERMISSIONS, query.permission, "permission"),
    )


def _entry(
    resource: int,
    name: str,
    principal: str,
    operation: int,
    permission: int,
    host: str,
    pattern: int,
) -> AclEntry:
    return AclEntry(
        word_of(RESOURCES, resource),
        name,
        principal,
        word_of(OPERATIONS, operation),
        "allow" if permission == PERMISSIONS["allow"] else "deny",
        host,
        word_of(PATTERNS, pattern),
    )
