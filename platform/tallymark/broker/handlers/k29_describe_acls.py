"""k29 DescribeAcls: the access-control entries that match a filter.

Served 1-3.

* v1 patterns of names (KIP-290): 2 matches every entry that applies to a name
* v2 flexible; v3 resources of type user: there are none, the filter is INVALID_REQUEST

Kept: needs DESCRIBE on the cluster; where no lists are in force the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from collections import defaultdict

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import AclFilter
from tallymark.protocol.acls.words import (
    ALLOW,
    CLUSTER_NAME,
    DENY,
    Operation,
    Pattern,
    ResourceType,
)
from tallymark.protocol.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)


def handle(state: BrokerState, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    """From memory."""
    try:
        require(
            state.authorizer,
            call.connection,
            Operation.DESCRIBE,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
        )
        if not state.security.enabled:
            raise KafkaError(CODES["SECURITY_DISABLED"], "authorizer.enable is false")
        wanted = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        wanted.check()
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=str(error))
    lists: dict[tuple[ResourceType, str, Pattern], list[Acl]] = defaultdict(list)
    for acl in sorted(state.security.records.acls):
        if wanted.matches(acl):
            lists[acl.kind, acl.name, acl.pattern].append(acl)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResponseResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[_described(acl) for acl in acls],
            )
            for (kind, name, pattern), acls in lists.items()
        ]
    )


def _described(acl: Acl) -> DescribeAclsResponseAcl:
    return DescribeAclsResponseAcl(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=ALLOW if acl.allow else DENY,
    )


register(DescribeAclsRequest, handle)
