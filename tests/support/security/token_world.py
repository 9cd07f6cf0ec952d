"""An issuer of tokens for tests: keys, tokens, and a server with a key set and a token endpoint."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from joserfc.jws import JWSRegistry

CLIENT = ("etl", "s3cret:/ü")
ISSUER = "https://issuer.example"
AUDIENCE = "tallymark"


class _Anything(JWSRegistry):
    max_header_length = 100_000


class Issuer:
    """Makes tokens with ``key`` and knows its public keys."""

    def __init__(self, kid: str = "one") -> None:
        self.key: Key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})
        self.public: list[Key] = [self.key]
        self.lifetime = 300.0

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on; the old ones are still published."""
        self.key = ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})
        self.public.append(self.key)

    def key_set(self) -> bytes:
        """As it is published."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.public]}).encode()

    def token(self, user: str = "alice", header: Any = None, key: Any = None, **claims: Any) -> str:
        """A token for ``user``; a claim that is None is left out."""
        now = time.time()
        given = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": int(now),
            "exp": now + self.lifetime,
            "scope": "kafka other",
        } | claims
        algorithm = "RS256" if isinstance(key or self.key, RSAKey) else "ES256"
        head = {"alg": algorithm, "kid": self.key.kid} | (header or {})
        kept = {name: value for name, value in given.items() if value is not None}
        head = {name: value for name, value in head.items() if value is not None}
        registry = _Anything(algorithms=[head["alg"]], strict_check_header=False)
        return jwt.encode(head, kept, key or self.key, [head["alg"]], registry)


def unsigned(header: Any, claims: Any, signature: bytes = b"") -> str:
    """Three parts of whatever."""
    parts = [
        part if isinstance(part, bytes) else json.dumps(part).encode()
        for part in (header, claims, signature)
    ]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class TokenServer(ThreadingHTTPServer):
    """``/keys`` and ``/token``; counts what was asked."""

    daemon_threads = True

    def __init__(self, issuer: Issuer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = issuer
        self.asked: list[str] = []
        self.forms: list[dict[str, list[str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self._answer(200, self.server.issuer.key_set())

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self.server.forms.append(parse_qs(body))
        given = self.headers.get("authorization", "").removeprefix("Basic ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        if (unquote(user), unquote(password)) != CLIENT:
            self._answer(401, b'{"error":"invalid_client"}')
            return
        issuer = self.server.issuer
        answer = {
            "access_token": issuer.token(CLIENT[0]),
            "token_type": "Bearer",
            "expires_in": issuer.lifetime,
        }
        self._answer(200, json.dumps(answer).encode())

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def token_server(issuer: Issuer) -> Iterator[TokenServer]:
    """It runs in a thread."""
    with TokenServer(issuer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def token_settings(url: str, **more: Any) -> dict[str, Any]:
    """Of a broker that takes the issuer's tokens, whose keys are at ``url``."""
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl_enabled_mechanisms": "OAUTHBEARER,PLAIN,SCRAM-SHA-512",
        "sasl_oauthbearer_jwks_endpoint_url": url,
        "sasl_oauthbearer_expected_audience": f"other,{AUDIENCE}",
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "connection_failed_authentication_delay_ms": 10,
    } | more


def keys_in(folder: Path, issuer: Issuer) -> str:
    """The key set as a file; its URL."""
    path = folder / "keys.json"
    path.write_bytes(issuer.key_set())
    return path.as_uri()
