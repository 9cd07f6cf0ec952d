"""k31 DeleteAcls: remove the access-control entries that match filters.

Served 1-3.

* v1 patterns of names (KIP-290); v2 flexible; v3 resources of type user: there are none

Kept: needs ALTER on the cluster; the answer names the entries that each filter removed; an entry
that matches two filters is named with both. Where no lists are in force: SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import AclFilter
from tallymark.protocol.acls.words import ALLOW, CLUSTER_NAME, DENY, Operation, ResourceType
from tallymark.protocol.messages import (
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
)


async def handle(state: BrokerState, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    """Remove all matching entries at once."""
    who, security = call.connection, state.security
    try:
        require(state.authorizer, who, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        if not security.enabled:
            raise KafkaError(CODES["SECURITY_DISABLED"], "authorizer.enable is false")
    except KafkaError as error:
        return DeleteAclsResponse(filter_results=[_refused(error)] * len(request.filters))
    acls = sorted(security.records.acls)
    meant = [_meant(each, acls) for each in request.filters]
    doomed = {acl for found in meant if not isinstance(found, KafkaError) for acl in found}
    if doomed:
        try:
            await security.change(lambda: security.store.change_acls(remove=doomed))
        except KafkaError as error:
            return DeleteAclsResponse(filter_results=[_refused(error)] * len(request.filters))
    return DeleteAclsResponse(
        filter_results=[
            _refused(found)
            if isinstance(found, KafkaError)
            else DeleteAclsResponseFilterResult(matching_acls=[_matching(acl) for acl in found])
            for found in meant
        ]
    )


def _meant(asked: DeleteAclsRequestFilter, acls: Sequence[Acl]) -> list[Acl] | KafkaError:
    wanted = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    try:
        wanted.check()
    except KafkaError as error:
        return error
    return [acl for acl in acls if wanted.matches(acl)]


def _matching(acl: Acl) -> DeleteAclsResponseMatchingAcl:
    return DeleteAclsResponseMatchingAcl(
        resource_type=acl.kind,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=ALLOW if acl.allow else DENY,
    )


def _refused(error: KafkaError) -> DeleteAclsResponseFilterResult:
    return DeleteAclsResponseFilterResult(error_code=error.code, error_message=str(error))


register(DeleteAclsRequest, handle)
