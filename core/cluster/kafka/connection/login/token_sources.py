"""Where tokens for OAUTHBEARER come from: an OIDC endpoint, a file, or made without a signature."""

from __future__ import annotations

import base64
import json
import math
import re
import ssl
import time
import urllib.parse
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import DocumentError, LoginRefusedError, TrimtabError, UnreachableError
from core.text.json_text import parse_json

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE = "sasl.oauthbearer.scope"
AUTHORITY = "https.ca.location"

HTTP_SECONDS = 5.0
_MAX_LIFE_SECONDS = 366 * 86400.0
"""No client library counts further than it must."""
_MAX_BYTES = 1 << 20
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")
_FAILURES = (400, 401, 403)
"""What an endpoint answers where it knows the client and says no."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, of whom it is, and until when (seconds since the epoch)."""

    value: str = field(repr=False)
    principal: str
    expires_at: float


class TokenSource(Hashable, Protocol):
    """Where tokens come from; equal sources share them."""

    def fetch(self) -> Token:
        """Return a new token; raises LoginRefusedError, UnreachableError, DocumentError."""
        ...


@dataclass(frozen=True, slots=True)
class OidcEndpoint:
    """An OIDC server's token endpoint, asked with the credentials of a client (RFC 6749, 4.4)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    url_encode: bool = False
    authority: Path | None = None
    """PEM of who signs the endpoint's certificate, besides this machine's own authorities."""

    def fetch(self) -> Token:
        # Not with every start: most connections want no token.
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        body = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        words = [self.client_id, self.client_secret]
        if self.url_encode:
            words = [urllib.parse.quote_plus(word) for word in words]
        request = Request(
            self.url,
            data=urllib.parse.urlencode(body).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": "Basic " + base64.b64encode(":".join(words).encode()).decode(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        try:
            with self._opener().open(request, timeout=HTTP_SECONDS) as response:
                answer = response.read(_MAX_BYTES)
        except HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(_MAX_BYTES)) from error
        except (OSError, ValueError, HTTPException) as error:
            raise self._silent(error) from error
        return self._token(answer)

    def _opener(self) -> OpenerDirector:
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """A secret goes where the file says, and nowhere else."""

            def redirect_request(self, *_: Any) -> None:
                return None

        try:
            context = ssl.create_default_context()
            if self.authority is not None:
                context.load_verify_locations(self.authority)
        except (OSError, ValueError) as error:
            raise DocumentError(
                f"{self.authority} has no certificates: {error}.",
                next=f"{AUTHORITY} takes a PEM file.",
            ) from error
        return build_opener(HTTPSHandler(context=context), NoRedirects)

    def _refused(self, status: int, answer: bytes) -> TrimtabError:
        reason = _error_code(answer) or f"HTTP {status}"
        if status in _FAILURES:
            return LoginRefusedError(
                f"{self.url} gives client {self.client_id} no token: {reason}.",
                next=f"Check {CLIENT_ID}, its secret, and {SCOPE} in the --command-config file.",
            )
        return self._no_token_error(reason)

    def _silent(self, error: Exception) -> TrimtabError:
        reason = getattr(error, "reason", error)
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, ssl.SSLCertVerificationError):
            return UnreachableError(
                f"{self.url} has a certificate that is not trusted: {reason.verify_message}.",
                next=f"Set {AUTHORITY} to a PEM file with its authority's certificate.",
            )
        return self._no_token_error(words)

    def _no_token_error(self, reason: str) -> UnreachableError:
        return UnreachableError(
            f"{self.url} gives no token: {reason}.",
            next=f"Check {ENDPOINT} in the --command-config file, and that server.",
        )

    def _token(self, answer: bytes) -> Token:
        try:
            response = parse_json(answer)
            value = response["access_token"]
            if not isinstance(value, str):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise UnreachableError(
                f"{self.url} answers without an access_token.",
                next=f"Check {ENDPOINT}: it is the server's token endpoint.",
            ) from error
        lifetime = response.get("expires_in")
        ends = time.time() + lifetime if isinstance(lifetime, int | float) else None
        return _check_token(value, self.url, principal=self.client_id, expires_at=ends)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that somebody else keeps a valid token in."""

    path: Path

    def fetch(self) -> Token:
        try:
            value = self.path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise DocumentError(
                f"{self.path} cannot be read: {reason}.",
                next=f"{ENDPOINT} names it as the file with the token.",
            ) from error
        return _check_token(value, str(self.path), principal="", expires_at=None)


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token that nobody has signed, which only brokers for tests take."""

    principal: str
    seconds: float = 3600.0

    def fetch(self) -> Token:
        now = time.time()
        head = {"alg": "none"}
        ends = now + self.seconds
        claims = {"sub": self.principal, "iat": now, "exp": ends}
        value = ".".join((*(_encode_jwt_part(part) for part in (head, claims)), ""))
        return Token(value, self.principal, ends)


def _check_token(value: str, origin: str, *, principal: str, expires_at: float | None) -> Token:
    """Return a token with whom and until when it says that it is for, if it is one that does."""
    if not _TOKEN.fullmatch(value):
        raise UnreachableError(
            f"What {origin} gives is no token.", next=f"Check {ENDPOINT} in --command-config."
        )
    claims = _claims(value)
    ends = claims.get("exp")
    if isinstance(ends, int | float):
        expires_at = float(ends)
    if expires_at is None or math.isnan(expires_at):
        raise UnreachableError(
            f"The token of {origin} does not say when it expires.",
            next="Have the server give JSON Web Tokens, or expires_in.",
        )
    if expires_at <= time.time():
        raise LoginRefusedError(
            f"The token of {origin} has expired.",
            next="Have a new one made, and look at this machine's clock.",
        )
    who = claims.get("sub")
    return Token(
        value,
        who if isinstance(who, str) and who else principal,
        min(expires_at, time.time() + _MAX_LIFE_SECONDS),
    )


def _claims(value: str) -> Mapping[str, Any]:
    """Return what a JSON Web Token says; nothing of a token that is none."""
    parts = value.split(".")
    if len(parts) < 2:
        return {}
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = parse_json(base64.urlsafe_b64decode(padded))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}


def _encode_jwt_part(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _error_code(answer: bytes) -> str:
    """Return the error of RFC 6749 in an answer, "" where it has none."""
    try:
        code = parse_json(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return code if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,64}", code) else ""
