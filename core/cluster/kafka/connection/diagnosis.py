"""Why a cluster does not answer, said so that the reader knows what to do next.

The servers are asked for it here, in the few bytes of Kafka's protocol that take no login, all side
by side and each within a second or two: what hangs costs no more than that.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from core.cluster.kafka.connection.handshake import (
    API_VERSIONS,
    SASL_HANDSHAKE,
    find_protocol,
    parse_mechanisms,
    send_request,
)
from core.cluster.kafka.connection.route import ProxyError
from core.cluster.kafka.connection.settings import ConnectionSettings, misspellings
from core.errors import DocumentError, TrimtabError, UnreachableError

DIAGNOSIS_SECONDS = 2.0
"""How long all of it takes at most."""
# OpenSSL's codes (x509_vfy.h): host name, IP address that do not match; too early, too late.
_WRONG_NAME = (62, 64)
_WRONG_TIME = (9, 10)
_UNSUPPORTED_MECHANISM, _NO_LOGIN_HERE = 33, 34
_NOT_RESOLVED = "its name is not resolved"
_HANGS_ADVICE = (
    "Check whether that broker hangs, or a firewall holds up what is sent to it; --timeout 60s "
    "waits longer."
)


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """Why a server has been of no use; `broker` is None for one that was named by the user."""

    broker: int | None
    address: str
    error: str


def unreachable(
    settings: ConnectionSettings | None, detail: str, troubles: Sequence[ConnectionFailure] = ()
) -> TrimtabError:
    """Return the error for a cluster that does not answer; looks at the servers itself.

    Where there is no token to log in with, that is what is said.

    `detail` is what went wrong on a connection that stood before; `troubles` are the brokers that
    the cluster itself named, and which were of no use.
    """
    if settings is None:
        return UnreachableError(detail, next="Try again; the brokers' logs say more.")
    try:
        settings.check_login()
    except TrimtabError as error:
        return error
    failure = _error_from_diagnosis(settings, detail, troubles)
    failure.next = f"{failure.next} {misspellings(settings.ignored)}".strip()
    return failure


def _error_from_diagnosis(
    settings: ConnectionSettings, detail: str, troubles: Sequence[ConnectionFailure]
) -> TrimtabError:
    brokers = {t.address: t.broker for t in troubles if t.broker is not None}
    findings = diagnose(settings, list(brokers) or settings.bootstrap.split(","))
    if brokers and all(finding.kind is not _Kind.ANSWERS for finding in findings.values()):
        return _advertised_error(settings, list(findings.values()), brokers)
    worst = min(findings.values(), key=lambda finding: finding.kind)
    number = brokers.get(worst.server)
    place = settings.route.describe(worst.server)
    subject = place if number is None else f"Broker {number} ({place})"
    if worst.kind is _Kind.ANSWERS and detail:
        return UnreachableError(
            f"{subject} is there, but the cluster does not answer: {detail}.",
            next="Check that its brokers and controllers are healthy.",
        )
    alone = len(findings) == 1 or worst.kind not in (_Kind.REFUSES, _Kind.NO_HOST)
    others = "." if alone else ", nor does any other server named answer."
    sentence = worst.sentence if number is None else ""
    return UnreachableError(f"{sentence or f'{subject} {worst.what}'}{others}", next=worst.advice)


def _advertised_error(
    settings: ConnectionSettings, findings: Sequence[_Finding], brokers: Mapping[str, int | None]
) -> TrimtabError:
    clauses = [
        f"broker {brokers[f.server]} advertises {settings.route.describe(f.server)}, which {f.what}"
        for f in findings
    ]
    text = "; ".join(clauses)
    return UnreachableError(
        f"{text[0].upper()}{text[1:]}.", next=findings[0].advertised or findings[0].advice
    )


class _Kind(IntEnum):
    """What was found, the most telling first."""

    TELLS = 1
    """It was answered, and the answer says what is wrong, today and tomorrow."""
    ODD = 2
    """It answers, and not as a broker does."""
    HANGS = 3
    ANSWERS = 4
    """Nothing is wrong with it that can be seen so."""
    REFUSES = 5
    NO_HOST = 6


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a server does, to be said after its name and without a full stop."""

    server: str
    kind: _Kind
    what: str
    advice: str
    sentence: str = ""
    """All of it in other words, where the user has named the server."""
    advertised: str = ""
    """The advice where the cluster itself names it."""


def diagnose(settings: ConnectionSettings, servers: Sequence[str]) -> dict[str, _Finding]:
    """Return what is found of each server, asked side by side."""
    seconds = settings.scaled_seconds(DIAGNOSIS_SECONDS)
    ends = time.monotonic() + seconds
    diagnoses = {server: _Diagnosis(server, settings, ends) for server in servers}
    threads = [threading.Thread(target=look.run, daemon=True) for look in diagnoses.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()) + 0.1)  # a name's look-up has no end
    return {server: look.finding or look.late() for server, look in diagnoses.items()}


def find_unreachable(settings: ConnectionSettings, servers: Sequence[str]) -> dict[str, str]:
    """Return which servers do not answer as brokers do, and what each does instead."""
    findings = diagnose(settings, servers)
    return {
        server: finding.what
        for server, finding in findings.items()
        if finding.kind is not _Kind.ANSWERS
    }


def is_misconfigured(settings: ConnectionSettings, server: str) -> bool:
    """Return whether a server is certain never to answer a connection with these settings."""
    return diagnose(settings, [server])[server].kind is _Kind.TELLS


class _Diagnosis:
    """One conversation with one server; `finding` is None until it is over."""

    def __init__(self, server: str, settings: ConnectionSettings, ends: float) -> None:
        self.finding: _Finding | None = None
        self._server, self._settings, self._ends = server, settings, ends
        host, _, port = server.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._step = _NOT_RESOLVED

    def run(self) -> None:
        try:
            self.finding = self._ask()
        except TimeoutError:
            self.finding = self.late()
        except DocumentError as error:  # a certificate's file has gone since it was read
            self.finding = self._conclusion(
                f"cannot be asked by TLS: {error.title.rstrip('.')}", error.next
            )

    def late(self) -> _Finding:
        seconds = self._settings.scaled_seconds(DIAGNOSIS_SECONDS)
        what = f"does not answer: {self._step} within {seconds:.3g} s"
        return _Finding(self._server, _Kind.HANGS, what, _HANGS_ADVICE)

    def _ask(self) -> _Finding:
        try:
            connection = self._connect()
        except (socket.gaierror, UnicodeError):  # no name at all, by IDNA's rules
            return _Finding(
                *(self._server, _Kind.NO_HOST, "cannot be resolved"),
                "Check the name after -b.",
                f"There is no host named {self._host}",
                self._remap_advice(),
            )
        except ConnectionRefusedError:
            return _Finding(
                *(self._server, _Kind.REFUSES, "refuses connections"),
                "Check host and port, and that the brokers run.",
                f"Nothing listens on {self._server}",
                f"Start that broker. {self._remap_advice()}",
            )
        except TimeoutError:
            raise
        except ProxyError as error:
            return _Finding(
                *(self._server, _Kind.REFUSES, f"is not reached: {error}"),
                "Check that the proxy of config.toml runs, and that it reaches the brokers.",
            )
        except OSError as error:
            return _Finding(
                *(self._server, _Kind.REFUSES, f"does not answer: {error.strerror or error}"),
                "Check host and port, and that the brokers run.",
                advertised=self._remap_advice(),
            )
        with connection:
            if self._settings.is_encrypted:
                return self._diagnose_tls(connection)
            return self._diagnose_plaintext(connection)

    def _remap_advice(self) -> str:
        return (
            f"If it is reached elsewhere from here, say so in config.toml: addresses = "
            f'{{"{self._server}" = "HOST:PORT"}}, or have advertised.listeners name that.'
        )

    def _connect(self) -> socket.socket:
        def resolved() -> None:
            if self._step == _NOT_RESOLVED:
                by = "" if self._settings.route.proxy is None else " by the proxy"
                self._step = f"no connection comes about{by}"

        return self._settings.route.connect(self._host, self._port, self._left, resolved)

    def _left(self) -> float:
        """Return the seconds that are left; raises TimeoutError when none are."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _half_time_left(self) -> float:
        """Return half of what is left: another guess takes some time, too."""
        return self._left() / 2

    def _diagnose_tls(self, connection: socket.socket) -> _Finding:
        self._step = "it takes the connection, and the TLS handshake is not answered"
        connection.settimeout(self._left())
        try:
            wrapped = self._settings.tls.context().wrap_socket(
                connection, server_hostname=self._host
            )
        except ssl.SSLCertVerificationError as error:
            return self._conclusion(*_certificate_problem(self._host, error.verify_code))
        except TimeoutError:
            raise
        except OSError as error:
            return self._diagnose_tls_failure(error)
        with wrapped:
            try:
                return self._diagnose_answers(wrapped)
            except TimeoutError:
                raise
            except OSError as error:  # with TLS 1.3 a client is refused after the handshake
                return self._diagnose_tls_failure(error)

    def _diagnose_tls_failure(self, error: OSError) -> _Finding:
        """Say why TLS fails where it is not ours that refuses; plain text is tried to know."""
        reason = str(error).upper()
        if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
            if self._settings.tls.certificate is None:
                return self._conclusion(
                    "wants a client certificate",
                    "Set ssl.keystore.location to a PEM file with key and certificate.",
                )
            return self._conclusion(
                "refuses this client certificate",
                "Have its authority trusted there, or set another ssl.keystore.location.",
            )
        if "ALERT" in reason:
            return self._unexpected_finding(
                f"speaks TLS, but no connection comes about: {_reason(error)}",
                "Compare TLS versions and ciphers with the broker's.",
            )
        match find_protocol(self._connect, self._half_time_left()):
            case "Kafka":
                return self._conclusion(
                    "does not speak TLS, and this connection wants to",
                    "Set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the --command-config "
                    "file.",
                )
            case "HTTP":
                return self._http_finding()
        return self._unexpected_finding(
            f"does not answer a TLS handshake as a Kafka broker: {_reason(error)}",
            "Check that it is a broker's TLS port.",
        )

    def _diagnose_plaintext(self, connection: socket.socket) -> _Finding:
        self._step = "it takes the connection, and Kafka's first request is not answered"
        try:
            return self._diagnose_answers(connection)
        except OSError as error:
            connection.close()
            # A broker's TLS listener hangs up on plain text; others say so, some in plain HTTP, or
            # wait for more.
            match find_protocol(self._connect, self._half_time_left()):
                case "TLS":
                    return self._conclusion(
                        "is a TLS listener, and this connection is plain text",
                        "Set security.protocol=SSL or SASL_SSL in a file for --command-config.",
                    )
                case "HTTP":
                    return self._http_finding()
            if isinstance(error, TimeoutError):
                raise
            return self._unexpected_finding(
                "does not answer as a Kafka broker",
                "Check that it is a broker's port; one that wants SASL needs --command-config.",
            )

    def _diagnose_answers(self, connection: socket.socket) -> _Finding:
        """Say what two requests are answered that take no login; raises OSError without answers."""
        send_request(connection, self._half_time_left, API_VERSIONS, 0, b"")
        self._step = "its first request is answered, and no other"
        login = self._settings.login
        mechanism = login.mechanism if login is not None else None
        name = (mechanism or "PLAIN").encode()
        answer = send_request(
            connection, self._left, SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name
        )
        code, offered = parse_mechanisms(answer)
        if mechanism and code == _UNSUPPORTED_MECHANISM:
            return self._conclusion(
                f"does not take logins by {mechanism}; it offers {offered or 'none'}",
                f"Set sasl.mechanism to one of these in the --command-config file: {offered}.",
            )
        if mechanism and code == _NO_LOGIN_HERE:
            right = "SSL" if self._settings.is_encrypted else "PLAINTEXT"
            return self._conclusion(
                "takes no logins, and this connection wants to log in",
                f"Set security.protocol={right}, or name the port that takes logins.",
            )
        if not mechanism and code != _NO_LOGIN_HERE:
            right = "SASL_SSL" if self._settings.is_encrypted else "SASL_PLAINTEXT"
            return self._conclusion(
                f"wants a login (by {offered or 'PLAIN'}), and this connection has none",
                f"Set security.protocol={right}, sasl.mechanism and sasl.jaas.config in a file "
                "for --command-config.",
            )
        return _Finding(
            *(self._server, _Kind.ANSWERS, "answers as a Kafka broker, but not in time"),
            _HANGS_ADVICE,
        )

    def _conclusion(self, what: str, advice: str) -> _Finding:
        return _Finding(self._server, _Kind.TELLS, what, advice)

    def _unexpected_finding(self, what: str, advice: str) -> _Finding:
        return _Finding(self._server, _Kind.ODD, what, advice)

    def _http_finding(self) -> _Finding:
        return self._conclusion("is an HTTP server, not a Kafka broker", "Give a broker's address.")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error) or "it hangs up"


def _certificate_problem(host: str, code: int) -> tuple[str, str]:
    if code in _WRONG_NAME:
        return (
            f"has a certificate that is not for {host}",
            "Use a name that is in it, or set ssl.endpoint.identification.algorithm= to nothing.",
        )
    if code in _WRONG_TIME:
        return (
            "has a certificate that is not valid today",
            "Renew it, or look at this machine's clock.",
        )
    return (
        "has a certificate that is of no authority that this connection trusts",
        "Set ssl.truststore.location to a PEM file with the authority's certificate.",
    )
