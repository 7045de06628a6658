"""A server with Prometheus' `query_range`, as far as it is asked for; its samples are given."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Samples = Sequence[tuple[float, float | str]]


@dataclass
class FakePrometheus:
    """What it has, how it answers instead, and what it was asked."""

    series: list[tuple[str, Mapping[str, str], Samples]] = field(default_factory=list)
    """Name, labels, and samples: seconds since the epoch, value."""
    answer: tuple[int, bytes] | None = None
    """A status and a body, instead."""
    redirect: str | None = None
    queries: list[dict[str, str]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    url: str = ""

    def add(self, name: str, labels: Mapping[str, str], samples: Samples) -> None:
        self.series.append((name, labels, samples))

    def matrix(self, words: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return each series at each step: its newest sample of the five minutes before."""
        query = words["query"]
        is_timestamp = query.startswith("timestamp(")
        name = query.removeprefix("timestamp(").partition("{")[0]
        start, end, step = (float(words[word]) for word in ("start", "end", "step"))
        matrix = []
        for of, labels, samples in self.series:
            points = []
            for n in range(int((end - start) / step + 1e-6) + 1):
                at = start + n * step
                newest = [pair for pair in samples if at - 300 < pair[0] <= at]
                if newest:
                    points.append([at, str(newest[-1][0 if is_timestamp else 1])])
            is_wanted = of == name and (
                ('topic!=""' in query and "topic" in labels)
                or ('topic=""' in query and "topic" not in labels)
                or "topic" not in query
            )
            if is_wanted and points:
                matrix.append({"metric": {"__name__": of, **labels}, "values": points})
        return matrix


@contextmanager
def serving(fake: FakePrometheus, certificate: Path | None = None) -> Iterator[FakePrometheus]:
    """Serve it on a port of this machine; by TLS with a file of certificate and key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            fake.tokens.append(self.headers["Authorization"])
            fake.queries.append(dict(urllib.parse.parse_qsl(query)))
            if fake.redirect is not None:
                self.send_response(302)
                self.send_header("Location", fake.redirect + self.path)
                self.end_headers()
                return
            status, body = fake.answer or (404, b"nothing here")
            if fake.answer is None and path.endswith("/api/v1/query_range"):
                result = {"resultType": "matrix", "result": fake.matrix(fake.queries[-1])}
                status, body = 200, json.dumps({"status": "success", "data": result}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    fake.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
