"""OAUTHBEARER: a login by tokens.

Properties are Kafka's (KIP-255, KIP-768, KIP-1258). One token serves all connections of a process;
it is asked for anew before it ends, for as long as the process lives.
"""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.login.token_sources import (
    AUTHORITY,
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    SCOPE,
    OidcEndpoint,
    Token,
    TokenFile,
    TokenSource,
    UnsecuredToken,
)
from core.errors import DocumentError, TrimtabError

OAUTHBEARER = "OAUTHBEARER"
URL_ENCODE = "sasl.oauthbearer.header.urlencode"
HANDLER = "sasl.login.callback.handler.class"
PROPERTIES = (ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, URL_ENCODE, HANDLER, AUTHORITY)
_INERT = ("sasl.oauthbearer.method", "sasl.oauthbearer.grant.type")
"""librdkafka's, which say what is done here without them."""
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
LOGIN_HANDLER = f"{_PACKAGE}OAuthBearerLoginCallbackHandler"
_HANDLERS = (LOGIN_HANDLER, f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler")
_UNSECURED = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"

REFRESH_AT = 0.75
"""After this share of its life a token is asked for anew: librdkafka asks at 0.8 of it."""
RETRY_SECONDS = 5.0
MIN_REFRESH_SECONDS = 1.0


class Tokens:
    """The token of one source at any time; thread-safe.

    A thread asks for the next one in time, so that who logs in anew waits for nobody.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._is_kept_fresh = False

    def current(self) -> Token:
        """Return a token that is valid; raises as the source, when there is none."""
        with self._lock:
            if self._token is None or time.time() >= self._token.expires_at:
                self._token = self._source.fetch()
                if not self._is_kept_fresh:
                    self._is_kept_fresh = True
                    threading.Thread(target=self._keep_fresh, name="tokens", daemon=True).start()
            return self._token

    def refresh(self) -> float:
        """Take a new token; return after how many seconds to do so again.

        While the source has none, one that is still valid serves on.
        """
        try:
            token = self._source.fetch()
        except TrimtabError:
            return RETRY_SECONDS
        with self._lock:
            self._token = token
        return _refresh_seconds(token)

    def _keep_fresh(self) -> None:
        seconds = _refresh_seconds(self.current())
        while True:
            time.sleep(seconds)
            seconds = self.refresh()


def _refresh_seconds(token: Token) -> float:
    return max(REFRESH_AT * (token.expires_at - time.time()), MIN_REFRESH_SECONDS)


@cache
def tokens_of(source: TokenSource) -> Tokens:
    """Return the tokens of a source, the same for equal sources in a process."""
    return Tokens(source)


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """A login by tokens, as both client libraries want it."""

    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()
    mechanism: str = OAUTHBEARER

    def check(self) -> None:
        """Have a token; raises as its source, where a library would only say that it failed."""
        tokens_of(self.source).current()

    def find_user(self) -> str:
        """Return the subject of its token; raises as `check`."""
        return tokens_of(self.source).current().principal

    def librdkafka_config(self) -> dict[str, Any]:
        def answer(_: str) -> tuple[str, float, str, dict[str, str]]:
            token = tokens_of(self.source).current()
            return token.value, token.expires_at, token.principal, dict(self.extensions)

        return {"sasl.mechanism": OAUTHBEARER, "oauth_cb": answer}

    def kafka_python_config(self) -> dict[str, Any]:
        from kafka.errors import KafkaConnectionError
        from kafka.net.sasl.oauth import AbstractTokenProvider

        login = self

        class Provider(AbstractTokenProvider):
            def token(self) -> str:
                try:
                    return tokens_of(login.source).current().value
                except TrimtabError as error:  # the library knows its own, and tries again
                    raise KafkaConnectionError(error.title) from error

            def extensions(self) -> dict[str, str]:
                return dict(login.extensions)

        return {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": Provider()}


def read_oauth(entries: dict[str, str], options: Mapping[str, str], path: Path) -> OAuthLogin:
    """Take a login by tokens out of a file's properties; `options` are of its JAAS config.

    Raises DocumentError for what cannot be done here, and for what is missing.
    """
    properties = {name: entries.pop(name, "") for name in PROPERTIES}
    for name in _INERT:
        entries.pop(name, None)
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in sorted(options.items())
        if name.startswith("extension_")
    )
    handler = properties[HANDLER]
    if handler in ("", _UNSECURED) and not properties[ENDPOINT]:
        subject = options.get("unsecuredLoginStringClaim_sub")
        if subject is None:
            raise DocumentError(
                f"{path}: {ENDPOINT} is not set.",
                next="Set it to the token endpoint of the OIDC server, or to file:///… of a token.",
            )
        seconds = options.get("unsecuredLoginLifetimeSeconds", "3600")
        if not seconds.isdecimal():
            raise DocumentError(
                f"{path}: unsecuredLoginLifetimeSeconds is not a whole number.",
                next="Write seconds, like 3600.",
            )
        return OAuthLogin(UnsecuredToken(subject, float(seconds)), extensions)
    if handler not in ("", *_HANDLERS):
        raise DocumentError(
            f"{path}: {HANDLER} {handler} is not supported.",
            next=f"Supported: {LOGIN_HANDLER}.",
        )
    url = properties[ENDPOINT]
    kind = urllib.parse.urlsplit(url).scheme
    if kind == "file":
        place = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
        return OAuthLogin(TokenFile(Path(place)), extensions)
    if kind not in ("http", "https"):
        raise DocumentError(
            f"{path}: {ENDPOINT} is no address: {url or 'it is empty'}.",
            next="Write it like https://sso.example.com/oauth2/token, or file:///run/token.",
        )
    if urllib.parse.urlsplit(url).username is not None:
        raise DocumentError(
            f"{path}: {ENDPOINT} has a user in it.",
            next=f"Take it out, and set {CLIENT_ID} and {CLIENT_SECRET}.",
        )
    client_id = properties[CLIENT_ID] or options.get("clientId", "")
    secret = properties[CLIENT_SECRET] or options.get("clientSecret", "")
    if not client_id or not secret:
        raise DocumentError(
            f"{path}: there is no {CLIENT_SECRET if client_id else CLIENT_ID}.",
            next="Set it, or clientId and clientSecret in sasl.jaas.config.",
        )
    authority = properties[AUTHORITY] or options.get("ssl.truststore.location", "")
    return OAuthLogin(
        OidcEndpoint(
            url,
            client_id,
            secret,
            properties[SCOPE] or options.get("scope", ""),
            properties[URL_ENCODE].lower() == "true",
            path.absolute().parent / authority if authority else None,
        ),
        extensions,
    )
