"""k51 AlterUserScramCredentials: set and remove the SCRAM credentials of users (KIP-554).

Served 0. Kept: the client salts the password, the broker never sees it; needs ALTER on the cluster;
every user succeeds or fails as a whole. Errors are an invalid name or mechanism, too few or too
many iterations, a credential named twice, and an unknown one to delete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.security.users import MECHANISM_OF
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.net.sasl.credential_text import stored_text
from tallymark.net.sasl.scram import ScramCredential
from tallymark.net.sasl.user_checks import check_iterations, check_user
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)

Change = dict[str, str | None]
_LONGEST = 1024


async def handle(
    state: BrokerState, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse:
    """User after user."""
    names = sorted({e.name for e in request.deletions} | {e.name for e in request.upsertions})
    results: list[AlterUserScramCredentialsResponseResult] = []
    for name in names:
        try:
            require(
                state.authorizer,
                call.connection,
                Operation.ALTER,
                ResourceType.CLUSTER,
                CLUSTER_NAME,
            )
            change = _change(state, request, name)
            alter = partial(state.security.store.alter_user, name, change)
            await state.security.change(alter)
            results.append(AlterUserScramCredentialsResponseResult(user=name))
        except KafkaError as error:
            results.append(
                AlterUserScramCredentialsResponseResult(
                    user=name, error_code=error.code, error_message=str(error)
                )
            )
    return AlterUserScramCredentialsResponse(results=results)


def _change(state: BrokerState, request: AlterUserScramCredentialsRequest, name: str) -> Change:
    check_user(name)
    deletions = [each for each in request.deletions if each.name == name]
    upsertions = [each for each in request.upsertions if each.name == name]
    named = Counter([e.mechanism for e in deletions] + [e.mechanism for e in upsertions])
    if any(number not in MECHANISM_OF for number in named):
        raise KafkaError(CODES["UNSUPPORTED_SASL_MECHANISM"], name)
    if any(count > 1 for count in named.values()):
        raise KafkaError(CODES["DUPLICATE_RESOURCE"], f"{name}: a mechanism is named twice")
    change: Change = {}
    held: Mapping[str, object] = state.security.users.credentials.get(name, {})
    for deletion in deletions:
        mechanism = MECHANISM_OF[deletion.mechanism]
        if mechanism not in held:
            raise KafkaError(CODES["RESOURCE_NOT_FOUND"], f"{name} has no {mechanism}")
        change[mechanism] = None
    for upsertion in upsertions:
        change[MECHANISM_OF[upsertion.mechanism]] = _credential(upsertion)
    return change


def _credential(upsertion: AlterUserScramCredentialsRequestUpsertion) -> str:
    check_iterations(upsertion.iterations)
    salt, salted = bytes(upsertion.salt), bytes(upsertion.salted_password)
    if not 0 < len(salt) <= _LONGEST or not 0 < len(salted) <= _LONGEST:
        raise KafkaError(CODES["UNACCEPTABLE_CREDENTIAL"], "salt or password is empty or too long")
    mechanism = MECHANISM_OF[upsertion.mechanism]
    return stored_text(ScramCredential.of_salted(mechanism, salted, salt, upsertion.iterations))


register(AlterUserScramCredentialsRequest, handle)
