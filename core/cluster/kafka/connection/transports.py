"""kafka-python's transports with a deadline on the TLS handshake, reporting each byte received.

Only `network` and `wire` import this.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_REFUSALS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION")
"""In OpenSSL's words for alerts, those that say the same each time."""


class NoHandshakeError(KafkaConnectionError):
    """TLS was answered, with a refusal or with what is not TLS: no later attempt fares better."""


class TcpTransport(KafkaTCPTransport):
    """Tells of all that comes in, and loses nothing of it.

    The library drops an answer whose sender hangs up at once, as brokers do after a login that
    they refuse; here the end is heard of when it is read again.
    """

    def __init__(self, *args: Any, on_bytes: Callable[[], None], **options: Any) -> None:
        self._on_bytes = on_bytes
        super().__init__(*args, **options)

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()
        if data:
            self._on_bytes()
            return data, None
        reason = error.args[0] if error is not None and error.args else None
        if isinstance(reason, ssl.SSLError) and any(w in str(reason.reason) for w in _REFUSALS):
            # With TLS 1.3 a server refuses a client once this side of the handshake is over.
            return data, NoHandshakeError(reason)
        return data, error


class TlsTransport(TcpTransport, KafkaSSLTransport):
    """The same over TLS; `shake_hands` is to be awaited before anything is sent."""

    async def shake_hands(self, ends: float) -> None:
        """Return once TLS stands; raises KafkaConnectionError by `ends` (monotonic seconds)."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=ends)
                self._on_bytes()
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=ends)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError) as error:
                raise KafkaConnectionError(f"closed in the TLS handshake: {error}") from error
            except ssl.SSLError as error:
                raise NoHandshakeError(error) from error
            except OSError as error:
                raise KafkaConnectionError(f"lost in the TLS handshake: {error}") from error
            else:
                return
