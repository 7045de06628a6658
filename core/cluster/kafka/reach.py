"""Why a cluster does not answer, said so that the reader knows what to do next."""

from __future__ import annotations

import socket
import ssl
import threading
import time

from core.cluster.kafka.connection import ConnectionSettings
from core.errors import RIGHTS, AccessDeniedError, TrimtabError, UnreachableError

_PROBE_SECONDS = 1.0
_LOGIN_SECONDS = 2.0
# OpenSSL's codes (x509_vfy.h): host name, IP address that do not match; too early, too late.
_WRONG_NAME = (62, 64)
_WRONG_TIME = (9, 10)


def denied(title: str) -> AccessDeniedError:
    return AccessDeniedError(title, next=RIGHTS)


def unreachable(settings: ConnectionSettings | None, detail: str) -> TrimtabError:
    """Return the error for a cluster that does not answer; looks at the servers itself.

    `detail` is what went wrong on a connection that stood before. A server that closes the
    connection because of a wrong password is told apart.
    """
    if settings is None:
        return UnreachableError(detail, next="Try again; the brokers' logs say more.")
    if settings.sasl_mechanism and _refuses_login(settings):
        return denied("The cluster refuses this user name or password.")
    title, advice = _look(settings, detail)
    return UnreachableError(title, next=advice)


def _refuses_login(settings: ConnectionSettings) -> bool:
    """Return whether a login fails; kafka-python takes that for a lost connection."""
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    refused = threading.Event()

    def told(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            refused.set()

    config = settings.confluent()
    logger = config.pop("logger")
    admin = AdminClient({**config, "error_cb": told}, logger=logger)
    deadline = time.monotonic() + _LOGIN_SECONDS
    while not refused.is_set() and time.monotonic() < deadline:
        admin.poll(0.1)
    return refused.is_set()


def _look(settings: ConnectionSettings, detail: str) -> tuple[str, str]:
    absent: list[tuple[str, str]] = []
    for server in settings.bootstrap.split(","):
        why = _why_absent(server)
        if why is None:
            break
        absent.append(why)
    else:
        others = ", nor does any other server named answer." if len(absent) > 1 else "."
        return f"{absent[0][0]}{others}", absent[0][1]
    place = _place(server)
    if detail:
        return (
            f"{server} is there, but the cluster does not answer: {detail}.",
            "Look whether its brokers and controllers are all well.",
        )
    # Before HTTP: a web server that wants TLS says so in plain HTTP.
    if _speaks_tls(place):
        if settings.encrypted:
            return _why_no_tls(server, place, settings)
        return (
            f"{server} is a TLS listener, and this connection is plain text.",
            "Set security.protocol=SSL or SASL_SSL in a file for --command-config.",
        )
    if _speaks_http(place):
        return f"{server} is an HTTP server, not a Kafka broker.", "Give a broker's address."
    if settings.encrypted:
        return (
            f"{server} does not speak TLS, and this connection wants to.",
            "Set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the --command-config file.",
        )
    return (
        f"{server} does not answer as a Kafka broker.",
        "Check that it is a broker's port; one that wants SASL needs --command-config.",
    )


def _place(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _why_absent(server: str) -> tuple[str, str] | None:
    """Return why nobody is there and what to do, without the full stop; None when one is."""
    again = "Check host and port, and that the brokers run."
    try:
        with socket.create_connection(_place(server), timeout=_PROBE_SECONDS):
            return None
    except (socket.gaierror, UnicodeError):  # no name at all, by IDNA's rules
        return f"There is no host named {_place(server)[0]}", "Check the name after -b."
    except ConnectionRefusedError:
        return f"Nothing listens on {server}", again
    except OSError as error:
        return f"{server} does not answer: {error.strerror or error}", again


def _why_no_tls(
    server: str, place: tuple[str, int], settings: ConnectionSettings
) -> tuple[str, str]:
    """Return why a TLS connection with these settings fails, from trying one."""
    try:
        with (
            socket.create_connection(place, timeout=_PROBE_SECONDS) as connection,
            settings.ssl_context().wrap_socket(connection, server_hostname=place[0]) as wrapped,
        ):
            # With TLS 1.3 a server refuses a client once that side of the handshake is over.
            wrapped.recv(1)
    except ssl.SSLCertVerificationError as error:
        return _about_certificate(server, place[0], error.verify_code)
    except ssl.SSLError as error:
        if "CERTIFICATE" in str(error).upper():
            if settings.certificate is None:
                return (
                    f"{server} wants a client certificate.",
                    "Set ssl.keystore.location to a PEM file with key and certificate.",
                )
            return (
                f"{server} refuses this client certificate.",
                "Have its authority trusted there, or set another ssl.keystore.location.",
            )
    except OSError:
        pass  # what it says of the connection was asked for above
    return (
        f"{server} speaks TLS, but no connection comes about.",
        "Check the brokers' advertised listeners: their names must be in their certificates.",
    )


def _about_certificate(server: str, host: str, code: int) -> tuple[str, str]:
    if code in _WRONG_NAME:
        return (
            f"The certificate of {server} is not for {host}.",
            "Use a name that is in it, or set ssl.endpoint.identification.algorithm= to nothing.",
        )
    if code in _WRONG_TIME:
        return (
            f"The certificate of {server} is not valid today.",
            "Renew it, or look at this machine's clock.",
        )
    return (
        f"The certificate of {server} is of no authority that this connection trusts.",
        "Set ssl.truststore.location to a PEM file with the authority's certificate.",
    )


def _speaks_http(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, timeout=_PROBE_SECONDS) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = connection.recv(64)
    except OSError:
        return False
    return answer.startswith(b"HTTP/")


def _speaks_tls(place: tuple[str, int]) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(place, timeout=_PROBE_SECONDS) as connection,
            context.wrap_socket(connection),
        ):
            return True
    except ssl.SSLError as error:
        # A server that refuses our side of the handshake in an alert has spoken TLS.
        return "ALERT" in str(error).upper()
    except OSError:
        return False
