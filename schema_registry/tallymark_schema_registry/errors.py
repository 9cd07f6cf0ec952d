"""Every answer that is not a success: HTTP status, ``error_code`` and message.

The codes are those of Confluent's registry: the first three digits repeat the HTTP status. Clients
match on some of the texts, so they are written once, here.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import TallymarkError

_SHOWN: Final = 4_096
"""Characters of what a client sent that an answer repeats."""


class RegistryError(TallymarkError):
    """An answer with HTTP ``status`` and the body ``{"error_code": code, "message": message}``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def http_error(status: int, phrase: str) -> RegistryError:
    """A plain HTTP error, in the words the ecosystem's servers use."""
    return RegistryError(status, status, f"HTTP {status} {phrase}")


def not_found() -> RegistryError:
    return http_error(404, "Not Found")


def bad_json(reason: str) -> RegistryError:
    return RegistryError(400, 400, f"the body is not JSON as expected: {reason}")


def too_large(limit: int) -> RegistryError:
    return RegistryError(413, 413, f"the body is larger than {limit} bytes")


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    return RegistryError(
        404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_deleted(subject: str) -> RegistryError:
    # The missing space is Confluent's; tools compare the text.
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40404, text)


def subject_not_deleted(subject: str) -> RegistryError:
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, text)


def version_deleted(subject: str, version: int) -> RegistryError:
    text = (
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently"
    )
    return RegistryError(404, 40406, text)


def version_not_deleted(subject: str, version: int) -> RegistryError:
    text = (
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted"
    )
    return RegistryError(404, 40407, text)


def no_subject_level(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, text)


def no_subject_mode(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return RegistryError(404, 40409, text)


def incompatible(subject: str, details: list[str]) -> RegistryError:
    """HTTP 409. The body's code is 409, as all servers up to 8.1 say; later ones say 40901."""
    text = (
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(details)}]'
    )
    return RegistryError(409, 409, text)


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, 42201, f"Invalid schema: {reason[:_SHOWN]}")


def too_much_work(reason: str) -> RegistryError:
    return invalid_schema(
        f"{reason}, with all the versions that the level asks for: divide it, or compare with "
        "fewer versions (a level that is not transitive)"
    )


def busy(reason: str) -> RegistryError:
    return RegistryError(503, 503, f"{reason}: try again in a few seconds")


def timed_out() -> RegistryError:
    """What was asked for may be done or not: a client asks again, which does it once."""
    return RegistryError(500, 50002, "The operation timed out: it may be stored, or not")


def invalid_version(version: str) -> RegistryError:
    text = (
        f"The specified version '{version}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(422, 42202, text)


def invalid_level() -> RegistryError:
    text = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, text)


def invalid_policy() -> RegistryError:
    return RegistryError(422, 42203, "Invalid compatibility policy. The valid value is LOGICAL")


def invalid_mode() -> RegistryError:
    text = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
    return RegistryError(422, 42204, text)


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    """``subject``: qualified."""
    text = (
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}."
    )
    return RegistryError(422, 42206, text)


def id_does_not_match(existing: int, given: int) -> RegistryError:
    text = f"The schema is registered with id {existing} already, not with id {given}"
    return RegistryError(422, 42207, text)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def contract_too_large(limit: int) -> RegistryError:
    text = f"The metadata or the rule set has more than {limit} characters"
    return RegistryError(422, 42209, text)


def invalid_rule_set(reason: str) -> RegistryError:
    return RegistryError(422, 42210, f"Invalid ruleset: {reason[:_SHOWN]}")


def context_not_empty(context: str) -> RegistryError:
    text = f"The specified context '{context}' is not empty."
    return RegistryError(422, 42211, text)


def store_failed() -> RegistryError:
    """503: it may go again in a moment. The code is the one that clients know."""
    return RegistryError(503, 50001, "Error in the backend data store")


def forbidden(who: str, right: str, subject: str) -> RegistryError:
    """HTTP 403. It says nothing about what is there: rights are given by name."""
    return RegistryError(403, 40301, f"{who or 'nobody'} may not {right} '{subject}'")
