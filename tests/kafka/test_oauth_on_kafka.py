"""OAUTHBEARER on a real broker: tokens of an endpoint, and connections that outlive them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oidc import CLIENT, SECRET, Endpoint, endpoint
from secured import TOKEN_LOGIN, SecuredBroker
from waiting import eventually

from core.cluster.client import NewTopic
from core.cluster.configs import Resource
from core.cluster.connect import Address, connect
from core.cluster.kafka.connection.login import oauth
from core.errors import LoginRefusedError, TrimtabError

TOPIC, RETENTION = Resource.topic("tokens"), "retention.ms"
TOKEN_SECONDS = 4.0
"""Brokers end a connection whose token has ended, and that has not logged in anew."""


@pytest.fixture
def server() -> Iterator[Endpoint]:
    oauth.tokens_of.cache_clear()
    with endpoint() as token_endpoint:
        yield token_endpoint


def address(secured: SecuredBroker, tmp_path: Path, written: str) -> Address:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{written}")
    return Address(secured.at("TOKENS"), path)


def of_endpoint(server: Endpoint, secret: str = SECRET) -> str:
    return (
        f"sasl.oauthbearer.token.endpoint.url={server.url}\n"
        f"sasl.oauthbearer.client.credentials.client.id={CLIENT}\n"
        f"sasl.oauthbearer.client.credentials.client.secret={secret}\n"
    )


def test_both_client_libraries_stay_logged_in_after_many_tokens_have_expired(
    secured: SecuredBroker, tmp_path: Path, server: Endpoint
) -> None:
    server.seconds = TOKEN_SECONDS
    with connect(address(secured, tmp_path, of_endpoint(server))) as connection:
        client = connection.client
        client.create_topics([NewTopic("tokens", ((1,),))])

        def answers_after(tokens: int) -> bool:
            assert client.describe_cluster().brokers  # by kafka-python
            (configs,) = client.describe_configs([TOPIC], [RETENTION]).values()  # by librdkafka
            assert RETENTION in configs
            return len(server.requests) >= tokens

        eventually(lambda: answers_after(6), 120)
        client.delete_topics(["tokens"])
    assert {request["client"] for request in server.requests} == {CLIENT}


def test_client_secret_refused_by_the_endpoint_is_reported_at_once(
    secured: SecuredBroker, tmp_path: Path, server: Endpoint
) -> None:
    began = time.monotonic()
    with (
        connect(address(secured, tmp_path, of_endpoint(server, "wrong"))) as connection,
        pytest.raises(LoginRefusedError, match="invalid_client"),
    ):
        connection.client.describe_cluster()
    assert time.monotonic() - began < 5


def test_token_refused_by_the_broker_is_reported(secured: SecuredBroker, tmp_path: Path) -> None:
    oauth.tokens_of.cache_clear()
    place = tmp_path / "token"
    place.write_text("opaque.e30.")
    written = f"sasl.oauthbearer.token.endpoint.url={place.as_uri()}\n"
    with (
        connect(address(secured, tmp_path, written)) as connection,
        pytest.raises(TrimtabError, match="does not say when it expires"),
    ):
        connection.client.describe_cluster()


def test_unsigned_token_logs_in_to_a_broker_that_accepts_unsigned_tokens(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    written = f'sasl.jaas.config={TOKEN_LOGIN} required unsecuredLoginStringClaim_sub="ops";\n'
    with connect(address(secured, tmp_path, written)) as connection:
        assert connection.client.describe_cluster().brokers
