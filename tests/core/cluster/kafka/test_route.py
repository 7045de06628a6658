"""Brokers that are reached elsewhere than they advertise: by other addresses, and by a proxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from fake_broker import KRAFT, FakeBroker, fake_broker
from servers import nobody, server, silent, socks_proxy

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.route import Route
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import UnreachableError

INTERNAL = "kafka.invalid"


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A broker that advertises what this machine cannot resolve."""
    with fake_broker(KRAFT, advertised=INTERNAL) as kraft_broker:
        yield kraft_broker


def advertised(broker: FakeBroker) -> str:
    return f"{INTERNAL}:{broker.bootstrap.rpartition(':')[2]}"


@contextmanager
def client(bootstrap: str, route: Route, seconds: float = 10.0) -> Iterator[KafkaClient]:
    settings = ConnectionSettings(bootstrap, timeout_seconds=seconds, route=route)
    with closing(KafkaClient(settings)) as opened:
        yield opened


def failure(bootstrap: str, route: Route) -> UnreachableError:
    with client(bootstrap, route, 1.0) as opened, pytest.raises(UnreachableError) as failed:
        opened.describe_cluster()
    return failed.value


@pytest.mark.parametrize(
    ("server", "reached"),
    [
        (("b1", 9092), ("localhost", 19092)),
        (("B1", 9092), ("localhost", 19092)),
        (("b1", 9093), ("b1", 9093)),
        (("2001:db8::1", 9092), ("::1", 19093)),
    ],
)
def test_an_address_is_mapped_with_its_port(
    server: tuple[str, int], reached: tuple[str, int]
) -> None:
    route = Route({"b1:9092": "localhost:19092", "[2001:db8::1]:9092": "[::1]:19093"})
    assert route.target(*server) == reached


def test_broker_is_reached_at_the_configured_address(broker: FakeBroker) -> None:
    """Both the one that is named, and what it advertises."""
    route = Route({advertised(broker): broker.bootstrap})
    with client(advertised(broker), route) as opened:
        assert opened.describe_cluster().topics


def test_unreachable_address_is_reported_with_the_address_it_is_mapped_to(
    broker: FakeBroker,
) -> None:
    nowhere = nobody()
    error = failure(broker.bootstrap, Route({advertised(broker): nowhere}))
    assert f"{advertised(broker)} (by config.toml at {nowhere})" in error.title


def test_error_for_an_unreachable_address_suggests_a_mapping(broker: FakeBroker) -> None:
    error = failure(broker.bootstrap, Route())
    assert f'addresses = {{"{advertised(broker)}" = "HOST:PORT"}}' in error.next


@pytest.mark.parametrize("password", [None, "open sesame"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_proxy_resolves_and_connects_to_broker_addresses(
    broker: FakeBroker, password: str | None, scheme: str
) -> None:
    targets: list[str] = []
    with socks_proxy(targets, password) as proxy:
        user = "" if password is None else "u:open%20sesame@"
        with client(advertised(broker), Route(proxy=f"{scheme}://{user}{proxy}")) as opened:
            assert opened.describe_cluster().topics
    assert set(targets) == {advertised(broker)}


def test_a_mapped_address_is_reached_by_the_proxy(broker: FakeBroker) -> None:
    targets: list[str] = []
    with socks_proxy(targets) as proxy:
        route = Route({advertised(broker): broker.bootstrap}, f"socks5://{proxy}")
        with client(advertised(broker), route) as opened:
            assert opened.describe_cluster().topics
    assert set(targets) == {broker.bootstrap}


def test_unreachable_proxy_is_reported_without_its_password() -> None:
    nowhere = nobody()
    route = Route(proxy=f"socks5://u:secret@{nowhere}")
    error = failure("b1:9092", route)
    assert f"the proxy {nowhere} is not reached" in error.title
    assert "secret" not in f"{error.title} {error.next} {error.detail} {route}"


def test_broker_that_the_proxy_cannot_reach_is_reported_as_unreachable() -> None:
    nowhere = nobody()
    with socks_proxy([]) as proxy:
        error = failure(nowhere, Route(proxy=f"socks5://{proxy}"))
    assert f"{nowhere} is not reached: the proxy {proxy} does not connect" in error.title


def test_hanging_proxy_is_reported_in_time() -> None:
    with server(silent) as proxy:
        error = failure("b1:9092", Route(proxy=f"socks5://{proxy}"))
    assert "by the proxy" in error.title


def test_a_client_that_is_closed_while_its_proxy_connects_leaves_no_socket(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two bootstrap servers, the proxy connects to one once the other has served its purpose."""
    asked, closed, connect = threading.Event(), threading.Event(), Route.connect_by_proxy
    late, other_end = socket.socketpair()

    def connect_late(route: Route, host: str, port: int, seconds: float) -> socket.socket:
        if host != "late.invalid":
            return connect(route, host, port, seconds)
        asked.set()
        closed.wait()
        return late

    monkeypatch.setattr(Route, "connect_by_proxy", connect_late)
    other_end.settimeout(20)
    with other_end, socks_proxy([]) as proxy:
        servers = f"late.invalid:9092,{advertised(broker)}"
        with client(servers, Route(proxy=f"socks5://{proxy}")) as opened:
            assert opened.describe_cluster().topics
            asked.wait()
        closed.set()
        assert other_end.recv(1) == b""


@pytest.mark.parametrize("route", [Route({"a:1": "b:2"}), Route(proxy="socks5://a:1")])
def test_librdkafka_is_not_used_with_mapped_addresses_or_a_proxy(route: Route) -> None:
    assert not ConnectionSettings("h:1", route=route).suits_librdkafka
