"""Checks a JSON Web Token and finds its user (RFC 7519, RFC 8725). No I/O: keys and the time are
arguments.

::

    header.claims.signature      each in base64url

    header   alg: one of ALGORITHMS   kid: which key
    claims   exp  iss  aud  [nbf  iat]  sub: the user   [scope]

Only signatures by a private key are accepted: a token with alg=none, or one that is signed with a
shared secret (an attacker may use the public key as one), is refused whatever the keys are. Keys
come only from the key set; keys in the header (jwk, jku, x5c) are ignored.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key
from joserfc.jws import JWSRegistry

from tallymark.net.sasl.mechanisms import SaslError
from tallymark.net.sasl.oauthbearer import Bearer

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
    *("EdDSA", "Ed25519"),
)
MAX_KEYS: Final = 100
"""Keys of a key set that are used; the rest is left out."""

_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_WITHOUT_KID: Final = 4
"""Keys that are tried for a token without a key id: each try takes up to a millisecond."""
_LONGEST_USER: Final = 255
_LATEST: Final = float(2**53)


class _Registry(JWSRegistry):
    max_header_length = 4096


class KeySet:
    """The public keys of one JSON Web Key Set (RFC 7517): by key id, and all. It leaves out keys of
    other kinds (shared secrets above all), keys for encryption, and keys too weak for
    signatures."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._keys = tuple(keys)

    @classmethod
    def parse(cls, text: bytes) -> KeySet:
        """The key set in ``text``. ValueError where it is no key set, or has no usable key."""
        try:
            document = json.loads(text)
            listed = document["keys"]
            keys = [_key(each) for each in listed[:MAX_KEYS]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("it is no JSON Web Key Set") from error
        found = [key for key in keys if key is not None]
        if not found:
            raise ValueError("it holds no public key of RSA, EC or Ed25519 for signatures")
        return cls(found)

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, kid: str | None) -> bool:
        """Whether the set has a key with this id; for None: any key."""
        return bool(self._keys) if kid is None else any(key.kid == kid for key in self._keys)

    def fitting(self, kid: str | None, algorithm: str) -> Sequence[Key]:
        """The keys that can verify a signature by ``algorithm``."""
        found = [
            key
            for key in self._keys
            if (kid is None or key.kid == kid)
            and key.get("alg", algorithm) == algorithm
            and _makes(key, algorithm)
        ]
        return found[:_WITHOUT_KID]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements for a token, from Kafka's settings ``sasl.oauthbearer.*``."""

    audiences: Collection[str] = ()
    """The token's ``aud`` must contain one of these; empty: any is accepted."""
    issuer: str = ""
    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: str = ""
    skew: float = 30.0
    """The largest difference between the clocks of the issuer and the broker, in seconds."""

    def bearer(self, token: str, keys: KeySet, now: float) -> Bearer:
        """The user of the token. SaslError with the reason, for our own log; it contains no secret
        part of the token. ``now``: seconds since 1970, UTC."""
        return self.with_claims(token, keys, now)[0]

    def with_claims(self, token: str, keys: KeySet, now: float) -> tuple[Bearer, Mapping[str, Any]]:
        """As :meth:`bearer`, and all that the token claims."""
        try:
            header = header_of(token)
            algorithm, kid = header.get("alg"), kid_of(header)
            if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
                raise SaslError(f"a token that is signed by {_shown(algorithm)}")
            claims = _verified(token, keys.fitting(kid, algorithm), algorithm, kid)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise SaslError(f"a token that is no JWT: {type(error).__name__}") from None
        return self._judged(claims, now), claims

    def _judged(self, claims: Mapping[str, Any], now: float) -> Bearer:
        expires = _seconds(claims, "exp")
        if expires is None:
            raise SaslError("a token that never expires (no exp)")
        if expires + self.skew <= now:
            raise SaslError(f"a token that expired {now - expires:.0f} s ago")
        for name in ("nbf", "iat"):
            since = _seconds(claims, name)
            if since is not None and since - self.skew > now:
                raise SaslError(f"a token that holds in {since - now:.0f} s ({name})")
        if self.issuer and claims.get("iss") != self.issuer:
            raise SaslError(f"a token of the issuer {_shown(claims.get('iss'))}")
        audience = claims.get("aud", ())
        named = [audience] if isinstance(audience, str) else audience
        if self.audiences and not (
            isinstance(named, list) and any(each in named for each in self.audiences)
        ):
            raise SaslError(f"a token for the audience {_shown(audience)}")
        if self.required_scope and self.required_scope not in _scopes(claims, self.scope_claim):
            raise SaslError(f"a token without the scope {self.required_scope!r}")
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= _LONGEST_USER:
            raise SaslError(f"a token whose {self.user_claim!r} names no user")
        if not user.isprintable():
            raise SaslError(f"a token whose {self.user_claim!r} is not printable")
        return Bearer(user, expires)


def header_of(token: str) -> Mapping[str, Any]:
    """The header of a token; it is not verified yet. ValueError where it is malformed."""
    if token.count(".") != 2:
        raise ValueError("not three parts")
    text = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    return header


def kid_of(header: Mapping[str, Any]) -> str | None:
    """The id of the key. ValueError where it is no text."""
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError("kid is no text")
    return kid


def _verified(
    token: str, keys: Sequence[Key], algorithm: str, kid: str | None
) -> Mapping[str, Any]:
    if not keys:
        raise SaslError(f"a token by {algorithm} of a key that is not known: {_shown(kid)}")
    why = "?"
    for key in keys:
        registry = _Registry(algorithms=[algorithm], strict_check_header=False)
        try:
            return jwt.decode(token, key, [algorithm], registry).claims
        except JoseError as error:
            why = str(error)
    raise SaslError(f"a token whose signature is not that of {_shown(kid)}: {why[:200]}")


def _key(given: Any) -> Key | None:
    if not isinstance(given, dict) or given.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    if given.get("use", "sig") != "sig" or "verify" not in given.get("key_ops", ("verify",)):
        return None
    try:
        key = import_key({name: value for name, value in given.items() if name != "d"})
        if isinstance(key, RSAKey) and key.public_key.key_size < 2048:
            return None
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return key


def _makes(key: Key, algorithm: str) -> bool:
    if algorithm[:2] in ("RS", "PS"):
        return isinstance(key, RSAKey)
    if algorithm in _CURVES:
        return isinstance(key, ECKey) and key.curve_name == _CURVES[algorithm]
    return isinstance(key, OKPKey) and key.curve_name == "Ed25519"


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SaslError(f"a token whose {name} is no number")
    if not math.isfinite(value) or not 0 <= value <= _LATEST:
        raise SaslError(f"a token whose {name} is no time")
    return float(value)


def _scopes(claims: Mapping[str, Any], name: str) -> list[str]:
    value = claims.get(name, ())
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str)]
    return []


def _shown(value: Any) -> str:
    return repr(value)[:100]
