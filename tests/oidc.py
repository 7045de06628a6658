"""An OIDC server's token endpoint on loopback, which gives tokens that nobody has signed."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CLIENT, SECRET = "ops", "s3cret"


def unsigned(**claims: Any) -> str:
    """Return a JSON Web Token without a signature."""
    parts = ({"alg": "none"}, claims)
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return ".".join((*(part.decode() for part in coded), ""))


class Endpoint:
    """Gives tokens of `seconds`; `answer` is what it says instead, with its status."""

    def __init__(self) -> None:
        self.url = ""
        self.seconds = 3600.0
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[dict[str, str]] = []
        """What each request had: its form, and `client` and `secret` of its head."""

    def respond(self, form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        words = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        client, _, secret = words.partition(":")
        self.requests.append({**form, "client": client, "secret": secret})
        if self.answer is not None:
            return self.answer
        if (client, secret) != (CLIENT, SECRET):
            return 401, b'{"error": "invalid_client", "error_description": "s3cret is wrong"}'
        now = time.time()
        token = unsigned(sub=client, iat=now, exp=now + self.seconds)
        return 200, json.dumps({"access_token": token, "expires_in": self.seconds}).encode()


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    token_endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
            status, body = token_endpoint.respond(form, self.headers["Authorization"])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{token_endpoint.url}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        token_endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
        try:
            yield token_endpoint
        finally:
            server.shutdown()
            thread.join()
