"""One call of Prometheus' HTTP API; Thanos, Mimir and VictoriaMetrics have it, too."""

from __future__ import annotations

import math
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import AccessDeniedError, DocumentError, TrimtabError, UnreachableError, UsageError
from core.text.json_text import parse_json

TIMEOUT_SECONDS = 30.0
"""How long it may say nothing; Prometheus itself gives a query up after two minutes."""
MAX_DETAIL = 300
SCHEMES = ("http", "https")


class Series(NamedTuple):
    """One series: its labels, and its points (seconds since the epoch, value), oldest first."""

    labels: Mapping[str, str]
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class PrometheusApi:
    """A server by its URL; the token's file is read anew for each call, as tokens are renewed."""

    url: str
    token_file: Path | None = field(default=None, repr=False)
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a URL that is not a server's."""
        try:
            parts = urllib.parse.urlsplit(self.url)
            is_server = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_server = False
        if not is_server or parts.query or parts.fragment or parts.username is not None:
            raise UsageError(
                "This is not the URL of a Prometheus.",
                next="Write it like https://prometheus.example:9090, a token with --token-file.",
            )

    def query_range(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """Return the series of a query at each step; points that are no numbers are left out.

        Raises UnreachableError, AccessDeniedError, TrimtabError for a query that it refuses, and
        DocumentError for a file of a token or of certificates.
        """
        words = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        answer = self._get(f"query_range?{urllib.parse.urlencode(words)}")
        try:
            return [_series(item) for item in answer["data"]["result"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._not_prometheus_error() from error

    def _get(self, call: str) -> Any:
        request = urllib.request.Request(f"{self.url.rstrip('/')}/api/v1/{call}")
        if self.token_file is not None:
            # Where it is redirected to another host the token does not go.
            request.add_unredirected_header("Authorization", f"Bearer {self._token()}")
        context = self._context()
        try:
            with urllib.request.urlopen(
                request, timeout=TIMEOUT_SECONDS, context=context
            ) as response:
                answer = parse_json(response.read())
        except urllib.error.HTTPError as error:
            raise self._refused(error) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            next = "Check the URL and the network."
            if isinstance(reason, ssl.SSLError):
                next = "Name the certificate of who signed its own with --ca-file."
            raise UnreachableError(
                f"Prometheus at {self.url} does not answer: {_one_line(reason)}.", next=next
            ) from error
        except ValueError as error:
            raise self._not_prometheus_error() from error
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise self._not_prometheus_error()
        return answer

    def _refused(self, error: urllib.error.HTTPError) -> TrimtabError:
        with error:
            try:
                detail = _one_line(parse_json(error.read())["error"])
            except (OSError, HTTPException, ValueError, KeyError, TypeError):
                detail = ""
        if error.code in (401, 403):
            return AccessDeniedError(
                f"Prometheus at {self.url} says no: {error.code}.",
                next="Give a token that may query with --token-file.",
            )
        if error.code in (400, 422):
            return TrimtabError(
                "Prometheus refuses the query.", detail=detail, next="Check --match."
            )
        if error.code == 404:
            return self._not_prometheus_error()
        return UnreachableError(
            f"Prometheus at {self.url} answers {error.code}.",
            detail=detail,
            next="Its log says more.",
        )

    def _not_prometheus_error(self) -> TrimtabError:
        return UnreachableError(
            f"{self.url} does not answer as a Prometheus does.",
            next="Its API is at URL/api/v1; Mimir's URL ends in /prometheus.",
        )

    def _token(self) -> str:
        assert self.token_file is not None
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise _file_error(self.token_file, reason, "--token-file") from error
        if not token.isprintable() or not token:
            raise _file_error(self.token_file, "it is not one line with a token", "--token-file")
        return token

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            assert self.ca_file is not None
            reason = "it has no certificates" if isinstance(error, ssl.SSLError) else error.strerror
            raise _file_error(self.ca_file, reason, "--ca-file") from error


def _series(item: Any) -> Series:
    labels = item["metric"]
    points = [(float(at), float(value)) for at, value in item["values"]]
    return Series(dict(labels), [point for point in points if math.isfinite(point[1])])


def _file_error(path: Path, reason: str | None, option: str) -> DocumentError:
    return DocumentError(f"{path} cannot be used: {reason}.", next=f"Check {option}.")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:MAX_DETAIL]
