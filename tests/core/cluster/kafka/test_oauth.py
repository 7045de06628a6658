"""OAUTHBEARER: where tokens come from, how long they serve, and what is said without one."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from oidc import CLIENT, SECRET, Endpoint, endpoint, unsigned
from waiting import eventually

from core.cluster.kafka.connection.login import oauth
from core.cluster.kafka.connection.login.oauth import Token, Tokens, UnsecuredToken
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError, LoginRefusedError, TrimtabError, UnreachableError

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KAFKAS = """
sasl.oauthbearer.token.endpoint.url={url}
sasl.oauthbearer.client.credentials.client.id={client}
sasl.oauthbearer.client.credentials.client.secret={secret}
"""
OF_JAAS = """
sasl.oauthbearer.token.endpoint.url={url}
sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.\
OAuthBearerLoginCallbackHandler
sasl.jaas.config={module} required clientId="{client}" clientSecret="{secret}" scope="kafka";
"""
OF_LIBRDKAFKA = """
sasl.oauthbearer.method=oidc
sasl.oauthbearer.token.endpoint.url={url}
sasl.oauthbearer.client.id={client}
sasl.oauthbearer.client.secret={secret}
sasl.oauthbearer.scope=kafka
"""


@pytest.fixture
def server() -> Iterator[Endpoint]:
    oauth.tokens_of.cache_clear()
    with endpoint() as token_endpoint:
        yield token_endpoint


def load(tmp_path: Path, text: str, **words: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    head = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    values = {"client": CLIENT, "secret": SECRET, "module": MODULE, **words}
    path.write_text(head + text.format(**values))
    return ConnectionSettings.load("b1:9092", path)


@pytest.mark.parametrize(
    ("written", "scope"), [(KAFKAS, None), (OF_JAAS, "kafka"), (OF_LIBRDKAFKA, "kafka")]
)
def test_both_libraries_get_the_same_token(
    tmp_path: Path, server: Endpoint, written: str, scope: str | None
) -> None:
    settings = load(tmp_path, written, url=server.url)
    assert settings.ignored == ()
    config = settings.librdkafka_config()
    value, expires_at, principal, extensions = config["oauth_cb"]("")
    assert config["sasl.mechanism"] == "OAUTHBEARER"
    assert (principal, extensions) == (CLIENT, {})
    assert expires_at == pytest.approx(time.time() + server.seconds, abs=60)
    theirs = settings.kafka_python_config()
    assert theirs["sasl_mechanism"] == "OAUTHBEARER"
    assert theirs["sasl_oauth_token_provider"].token() == value
    (request,) = server.requests
    assert request["grant_type"] == "client_credentials"
    assert request.get("scope") == scope
    assert (request["client"], request["secret"]) == (CLIENT, SECRET)


def test_extensions_of_the_jaas_config_go_with_the_token(tmp_path: Path, server: Endpoint) -> None:
    settings = load(
        tmp_path,
        KAFKAS + 'sasl.jaas.config={module} required extension_logicalCluster="lkc-1";\n',
        url=server.url,
    )
    assert settings.librdkafka_config()["oauth_cb"]("")[3] == {"logicalCluster": "lkc-1"}
    provider = settings.kafka_python_config()["sasl_oauth_token_provider"]
    assert provider.extensions() == {"logicalCluster": "lkc-1"}


def test_token_can_be_read_from_a_file(tmp_path: Path) -> None:
    oauth.tokens_of.cache_clear()
    place = tmp_path / "token"
    place.write_text(unsigned(sub="pod", exp=time.time() + 60) + "\n")
    settings = load(tmp_path, "sasl.oauthbearer.token.endpoint.url={url}\n", url=place.as_uri())
    value, _, principal, _ = settings.librdkafka_config()["oauth_cb"]("")
    assert (value, principal) == (place.read_text().strip(), "pod")


def test_unsecured_login_claims_produce_an_unsigned_token(tmp_path: Path) -> None:
    settings = load(
        tmp_path, 'sasl.jaas.config={module} required unsecuredLoginStringClaim_sub="ann";\n'
    )
    value, expires_at, principal, _ = settings.librdkafka_config()["oauth_cb"]("")
    assert principal == "ann"
    assert expires_at == pytest.approx(time.time() + 3600, abs=60)
    assert value.endswith(".")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "token.endpoint.url is not set"),
        ("sasl.oauthbearer.token.endpoint.url=sso/token\n", "is no address: sso/token"),
        ("sasl.oauthbearer.token.endpoint.url=http://sso/token\n", "client.id"),
        (
            "sasl.oauthbearer.token.endpoint.url=http://sso/token\n"
            "sasl.oauthbearer.client.credentials.client.id=ops\n",
            "client.secret",
        ),
        (
            "sasl.oauthbearer.token.endpoint.url=https://ops:s3cret@sso/token\n",
            "has a user in it",
        ),
        ("sasl.login.callback.handler.class=com.example.Handler\n", "com.example.Handler"),
        (
            "sasl.jaas.config={module} required unsecuredLoginStringClaim_sub=a "
            'unsecuredLoginLifetimeSeconds="soon";\n',
            "unsecuredLoginLifetimeSeconds",
        ),
    ],
)
def test_missing_or_invalid_settings_are_reported_before_any_request(
    tmp_path: Path, written: str, says: str
) -> None:
    with pytest.raises(DocumentError, match=says) as exc_info:
        load(tmp_path, written)
    assert exc_info.value.next
    assert SECRET not in str(exc_info.value)


def answer(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("status", "body", "error", "says"),
    [
        (401, b'{"error": "invalid_client"}', LoginRefusedError, "invalid_client"),
        (400, answer(error="invalid_scope"), LoginRefusedError, "invalid_scope"),
        (400, answer(error="s3cret \x1b[31m"), LoginRefusedError, "HTTP 400"),
        (403, b"<html>", LoginRefusedError, "HTTP 403"),
        (302, b"", UnreachableError, "HTTP 302"),
        (404, b"", UnreachableError, "HTTP 404"),
        (503, b"[]", UnreachableError, "HTTP 503"),
        (200, b"<html>", UnreachableError, "without an access_token"),
        (200, answer(token="x"), UnreachableError, "without an access_token"),
        (200, answer(access_token=7), UnreachableError, "without an access_token"),
        (200, answer(access_token="a b\x01", expires_in=60), UnreachableError, "is no token"),
        (200, answer(access_token="opaque"), UnreachableError, "does not say when it expires"),
        (200, answer(access_token="x", expires_in=float("nan")), UnreachableError, "not say when"),
        (200, answer(access_token=unsigned(exp=1)), LoginRefusedError, "has expired"),
    ],
)
def test_endpoint_without_a_valid_token_is_reported_without_the_secret(
    tmp_path: Path,
    server: Endpoint,
    status: int,
    body: bytes,
    error: type[TrimtabError],
    says: str,
) -> None:
    server.answer = (status, body)
    settings = load(tmp_path, KAFKAS, url=server.url)
    with pytest.raises(error, match=says) as exc_info:
        settings.check_login()
    assert exc_info.value.next
    assert SECRET not in str(exc_info.value)
    provider = settings.kafka_python_config()["sasl_oauth_token_provider"]
    with pytest.raises(KafkaConnectionError):
        provider.token()


def test_wrong_client_secret_is_reported_as_a_refused_login(
    tmp_path: Path, server: Endpoint
) -> None:
    settings = load(tmp_path, KAFKAS, url=server.url, secret="other")
    with pytest.raises(LoginRefusedError, match="gives client ops no token: invalid_client"):
        settings.check_login()


def test_unreachable_token_endpoint_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/token"
        settings = load(tmp_path, KAFKAS, url=url)
        with pytest.raises(UnreachableError, match="gives no token: Connection refused"):
            settings.check_login()


def test_an_opaque_token_lasts_as_long_as_its_endpoint_says(
    tmp_path: Path, server: Endpoint
) -> None:
    server.answer = (200, answer(access_token="opaque", expires_in=60))
    settings = load(tmp_path, KAFKAS, url=server.url)
    value, expires_at, principal, _ = settings.librdkafka_config()["oauth_cb"]("")
    assert (value, principal) == ("opaque", CLIENT)
    assert expires_at == pytest.approx(time.time() + 60, abs=30)


def test_repr_shows_no_client_secret_or_token(tmp_path: Path, server: Endpoint) -> None:
    settings = load(tmp_path, OF_JAAS, url=server.url)
    assert SECRET not in repr(settings)
    token = oauth.tokens_of(settings.login.source).current()  # type: ignore[union-attr]
    assert token.value not in repr(token)


# -- how long a token serves -----------------------------------------------------------------------


class Source:
    """Gives tokens of 100 seconds by a clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.given = 0
        self.fails = False
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(Tokens, "_keep_fresh", lambda _: None)

    def fetch(self) -> Token:
        if self.fails:
            raise UnreachableError("it is not there")
        self.given += 1
        return Token(f"t{self.given}", "ann", self.now + 100)


def test_token_is_cached_and_refreshed_at_three_quarters_of_its_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(monkeypatch)
    tokens = Tokens(source)
    assert tokens.current().value == tokens.current().value == "t1"
    source.now = 1075
    assert tokens.refresh() == 75.0
    assert tokens.current().value == "t2"


def test_valid_token_is_used_while_the_endpoint_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(monkeypatch)
    tokens = Tokens(source)
    tokens.current()
    source.fails, source.now = True, 1099
    assert tokens.refresh() == oauth.RETRY_SECONDS
    assert tokens.current().value == "t1"
    source.now = 1105
    with pytest.raises(UnreachableError):
        tokens.current()
    source.fails = False
    assert tokens.current().value == "t2"


def test_next_token_is_fetched_in_the_background_before_expiry(
    tmp_path: Path, server: Endpoint
) -> None:
    server.seconds = 1.5
    load(tmp_path, KAFKAS, url=server.url).check_login()
    eventually(lambda: len(server.requests) >= 3)


def test_equal_sources_share_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = UnsecuredToken("ann"), UnsecuredToken("ann")
    assert oauth.tokens_of(first) is oauth.tokens_of(second)
