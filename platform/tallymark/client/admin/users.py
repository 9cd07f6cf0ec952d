"""SCRAM users and their passwords (KIP-554), and quotas of clients (KIP-546)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import from_controller
from tallymark.errors import UserError
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import MIN_ITERATIONS, salted_password
from tallymark.protocol import messages

_MECHANISMS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
_SALT_BYTES: Final = 32


if TYPE_CHECKING:
    _Change: TypeAlias = (
        messages.AlterUserScramCredentialsRequestUpsertion
        | messages.AlterUserScramCredentialsRequestDeletion
    )
Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The clients that a quota applies to, as pairs: ("user" | "client-id" | "ip", name). The name None
means the default for all."""


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A user's password for one mechanism. It is never sent to the broker: the client salts and
    hashes it ``iterations`` times."""

    user: str
    password: str = field(repr=False)
    mechanism: str = SCRAM_SHA_512
    iterations: int = MIN_ITERATIONS


class UserAdmin(AdminBase):
    """The methods of Admin for users and quotas."""

    def describe_users(self, names: Iterable[str] = ()) -> Results[str, dict[str, int]]:
        """User -> {mechanism: iterations}; all users by default."""
        users = tuple(messages.DescribeUserScramCredentialsRequestUser(name=name) for name in names)
        request = messages.DescribeUserScramCredentialsRequest(users=users or None)
        answer = self._run(self._cluster.ask_any(request), "describing users")
        if answer.error_code:
            raise refusal(answer.error_code, "users", answer.error_message)
        words = {number: mechanism for mechanism, number in _MECHANISMS.items()}
        found: Outcomes[str, dict[str, int]] = {
            one.user: refusal(one.error_code, f"user {one.user}", one.error_message)
            if one.error_code
            else {words.get(i.mechanism, "?"): i.iterations for i in one.credential_infos}
            for one in answer.results
        }
        return Results.of(found)

    def alter_users(
        self,
        passwords: Iterable[NewPassword] = (),
        remove: Iterable[tuple[str, str]] = (),
    ) -> Results[str, None]:
        """Set users' passwords, and ``remove`` (user, mechanism) pairs; results by user."""
        changes: list[_Change] = [_upsertion(one) for one in passwords]
        changes += [
            messages.AlterUserScramCredentialsRequestDeletion(
                name=user, mechanism=_number(mechanism)
            )
            for user, mechanism in remove
        ]
        results: Results[str, None] = Results()
        for turn in _turns(changes):
            pending = [name for name in turn if name not in results.errors]
            found = self._settle(pending, partial(self._alter_users, turn), "changing users")
            results = Results({**results.done, **found.done}, {**results.errors, **found.errors})
        failed = results.errors
        return Results({name: None for name in results.done if name not in failed}, failed)

    async def _alter_users(
        self, changes: Mapping[str, _Change], names: list[str]
    ) -> Outcomes[str, None]:
        def read(response: messages.AlterUserScramCredentialsResponse) -> Outcomes[str, None]:
            return {
                one.user: refusal(one.error_code, f"user {one.user}", one.error_message)
                if one.error_code
                else None
                for one in response.results
            }

        chosen = [changes[name] for name in names]
        request = messages.AlterUserScramCredentialsRequest(
            upsertions=tuple(
                one
                for one in chosen
                if isinstance(one, messages.AlterUserScramCredentialsRequestUpsertion)
            ),
            deletions=tuple(
                one
                for one in chosen
                if isinstance(one, messages.AlterUserScramCredentialsRequestDeletion)
            ),
        )
        return await from_controller(self._cluster, request, names, read)

    def describe_quotas(self) -> dict[Entity, dict[str, float]]:
        """Every quota: entity -> {name: value}."""
        answer = self._run(
            self._cluster.ask_any(messages.DescribeClientQuotasRequest()), "describing quotas"
        )
        if answer.error_code:
            raise refusal(answer.error_code, "quotas", answer.error_message)
        return {
            tuple(sorted(((p.entity_type, p.entity_name) for p in entry.entity), key=str)): {
                value.key: value.value for value in entry.values
            }
            for entry in answer.entries or ()
        }

    def alter_quotas(
        self, changes: Mapping[Entity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Results[Entity, None]:
        """Set quotas ("producer_byte_rate", "consumer_byte_rate", in bytes a second); None
        removes one."""
        wanted = {tuple(sorted(entity, key=str)): change for entity, change in changes.items()}

        async def attempt(pending: list[Entity]) -> Outcomes[Entity, None]:
            request = messages.AlterClientQuotasRequest(
                entries=tuple(_quota(entity, wanted[entity]) for entity in pending),
                validate_only=validate_only,
            )
            return await from_controller(
                self._cluster,
                request,
                pending,
                lambda response: {
                    tuple(
                        sorted(((p.entity_type, p.entity_name) for p in one.entity), key=str)
                    ): refusal(one.error_code, "quota", one.error_message)
                    if one.error_code
                    else None
                    for one in response.entries
                },
            )

        return self._settle(wanted, attempt, "changing quotas")


def _turns(changes: Iterable[_Change]) -> list[dict[str, _Change]]:
    """The changes split into requests with at most one change per user: Apache Kafka accepts no
    more in one request."""
    turns: list[dict[str, _Change]] = []
    for change in changes:
        free = next((turn for turn in turns if change.name not in turn), None)
        if free is None:
            free = {}
            turns.append(free)
        free[change.name] = change
    return turns


def _number(mechanism: str) -> int:
    if mechanism not in _MECHANISMS:
        raise UserError(
            f"there is no mechanism {mechanism!r}", f"give one of {', '.join(_MECHANISMS)}"
        )
    return _MECHANISMS[mechanism]


def _upsertion(new: NewPassword) -> messages.AlterUserScramCredentialsRequestUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    return messages.AlterUserScramCredentialsRequestUpsertion(
        name=new.user,
        mechanism=_number(new.mechanism),
        iterations=new.iterations,
        salt=salt,
        salted_password=salted_password(new.mechanism, new.password, salt, new.iterations),
    )


def _quota(
    entity: Entity, change: Mapping[str, float | None]
) -> messages.AlterClientQuotasRequestEntry:
    return messages.AlterClientQuotasRequestEntry(
        entity=tuple(
            messages.AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
            for kind, name in entity
        ),
        ops=tuple(
            messages.AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in change.items()
        ),
    )
