"""A secured sandbox's token endpoint: a client's id and secret in, a signed token out (OAuth 2.0).

It is a process of its own, `python -P -m core.cluster.sandbox.token_endpoint PROPERTIES`, and
listens on loopback only.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import sys
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cluster.kafka.connection.properties import parse_properties
from core.cluster.sandbox.authority import TOKEN_KEY_ID, base64url
from core.cluster.sandbox.nodes import HOST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

TOKEN_SECONDS = 60
"""So short that whoever stays connected for minutes has to log in anew."""
PATH = "/token"
CLIENT = "client."
"""What a property begins with that holds a client's secret; its id follows."""


def answer(
    form: str, authorization: str, secrets: Mapping[str, str], key: EllipticCurvePrivateKey
) -> tuple[int, dict[str, Any]]:
    """Return the status and the document that answer a request for a token (RFC 6749, 4.4)."""
    client = _authenticate_client(authorization, secrets)
    if client is None:
        return 401, {"error": "invalid_client"}
    grant = urllib.parse.parse_qs(form).get("grant_type", [""])
    if grant != ["client_credentials"]:
        return 400, {"error": "unsupported_grant_type"}
    now = int(time.time())
    claims = {"sub": client, "iat": now, "exp": now + TOKEN_SECONDS}
    token = sign_token(claims, key)
    return 200, {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_SECONDS}


def sign_token(claims: Mapping[str, object], key: EllipticCurvePrivateKey) -> str:
    """Return a JSON Web Token with these claims, signed by ES256 (RFC 7515)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    head = {"alg": "ES256", "typ": "JWT", "kid": TOKEN_KEY_ID}
    text = ".".join(base64url(json.dumps(part).encode()) for part in (head, dict(claims)))
    numbers = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{base64url(b''.join(number.to_bytes(32) for number in numbers))}"


def _authenticate_client(authorization: str, secrets: Mapping[str, str]) -> str | None:
    """Return the client whose id and secret these are (HTTP Basic)."""
    scheme, _, words = authorization.partition(" ")
    try:
        decoded = base64.b64decode(words, validate=True).decode()
    except ValueError:
        return None
    client, _, secret = (urllib.parse.unquote_plus(part) for part in decoded.partition(":"))
    expected = secrets.get(client)
    if scheme.lower() != "basic" or expected is None:
        return None
    return client if hmac.compare_digest(secret.encode(), expected.encode()) else None


def create_server(
    port: int, secrets: Mapping[str, str], key: EllipticCurvePrivateKey
) -> ThreadingHTTPServer:
    """Return a server that listens; raises OSError where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self.path != PATH:
                status, document = 404, {"error": "not_found"}
            elif not re.fullmatch(r"[0-9]{1,4}", length):
                status, document = 400, {"error": "invalid_request"}
            else:
                form = self.rfile.read(int(length)).decode("latin-1")
                login = self.headers.get("Authorization", "")
                status, document = answer(form, login, secrets, key)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer((HOST, port), Handler)


def main(arguments: Sequence[str]) -> None:
    """Serve as the properties file says, until the process is ended."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    entries = parse_properties(Path(arguments[0]).read_bytes())
    key = load_pem_private_key(Path(entries["key"]).read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    secrets = {
        name.removeprefix(CLIENT): secret
        for name, secret in entries.items()
        if name.startswith(CLIENT)
    }
    with create_server(int(entries["port"]), secrets, key) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
