"""How brokers are reached whose advertised addresses are not: other addresses, a SOCKS5 proxy."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class ProxyError(OSError):
    """The proxy is not there, or does not connect; a clause that says which."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Route:
    """`addresses` maps HOST:PORT as a broker advertises it to HOST:PORT as it is reached."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = field(default=None, repr=False)
    """A URL like socks5://localhost:1080, which may hold a password."""

    @property
    def is_direct(self) -> bool:
        return not self.addresses and self.proxy is None

    def target(self, host: str, port: int) -> tuple[str, int]:
        """Return where a broker is reached that advertises this address."""
        mapped = self._lookup(f"{host.lower()}:{port}") or self._lookup(f"[{host.lower()}]:{port}")
        if mapped is None:
            return host, port
        host, _, number = mapped.rpartition(":")
        return host.strip("[]"), int(number)

    def describe(self, server: str) -> str:
        """Return a broker's address, and where that is reached if it is elsewhere."""
        mapped = self._lookup(server.lower())
        return server if mapped is None else f"{server} (by config.toml at {mapped})"

    def _lookup(self, server: str) -> str | None:
        return self.addresses.get(server)

    def connect(
        self,
        host: str,
        port: int,
        left: Callable[[], float],
        resolved: Callable[[], None] = lambda: None,
    ) -> socket.socket:
        """Return a connection to a broker that advertises this; blocks, raises OSError.

        `left` are the seconds that are left, which the addresses of a host share; `resolved` is
        called once they are known, or are the proxy's to find.
        """
        host, port = self.target(host, port)
        if self.proxy is not None:
            resolved()
            return self.connect_by_proxy(host, port, left())
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        resolved()
        error: OSError = OSError("it has no address")
        for place, (family, *_, address) in enumerate(addresses):
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.settimeout(left() / (len(addresses) - place))
                connection.connect(address)
            except OSError as failed:
                connection.close()
                error = failed
            else:
                return connection
        raise error

    def connect_by_proxy(self, host: str, port: int, seconds: float) -> socket.socket:
        """Return a connection through the proxy, which resolves the host; blocks.

        Raises TimeoutError, or ProxyError, which says whether proxy or broker is not there.
        """
        import python_socks
        from python_socks.sync import Proxy

        assert self.proxy is not None
        url = urlsplit(self.proxy)
        at = f"{url.hostname}:{url.port}"
        proxy = Proxy.from_url(self.proxy.replace("socks5h://", "socks5://", 1), rdns=True)
        try:
            connection: socket.socket = proxy.connect(host, port, timeout=seconds)
        except python_socks.ProxyTimeoutError as error:
            raise TimeoutError from error
        except python_socks.ProxyConnectionError as error:
            raise ProxyError(f"the proxy {at} is not reached") from error
        except python_socks.ProxyError as error:
            raise ProxyError(f"the proxy {at} does not connect to it: {error}") from error
        return connection
