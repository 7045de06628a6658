"""What kafka-python's SASL mechanisms lack: Kerberos' keytabs and errors, and delegation tokens.

Only `python_clients` imports this: it loads the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from core.cluster.kafka.connection.login.kerberos import GSSAPI, KerberosLogin, describe_error
from core.cluster.kafka.connection.login.sasl import TokenId
from core.errors import LoginRefusedError


def register_mechanisms() -> None:
    """Have kafka-python log in by these."""
    register_sasl_mechanism(GSSAPI, KerberosMechanism, overwrite=True)
    for name in ScramClient.MECHANISMS:
        register_sasl_mechanism(name, ScramMechanism, overwrite=True)


class KerberosMechanism(SaslMechanismGSSAPI):
    """The library's exchange with a login's own credentials, a keytab's among them."""

    def __init__(self, **config: Any) -> None:
        import gssapi

        login: KerberosLogin = config["sasl_kerberos_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{config['host']}"
        with _refusals():
            name = gssapi.Name(self.auth_id, gssapi.NameType.hostbased_service)
            self._client_ctx = gssapi.SecurityContext(
                name=name.canonicalize(gssapi.MechType.kerberos),
                creds=login.credentials(),
                usage="initiate",
            )
            self._next_token = self._client_ctx.step(None)

    def receive(self, auth_bytes: bytes) -> None:
        with _refusals():
            super().receive(auth_bytes)


@contextmanager
def _refusals() -> Iterator[None]:
    import gssapi

    try:
        yield
    except gssapi.exceptions.GSSError as error:
        raise SaslAuthenticationFailedError(describe_error(error)) from error
    except LoginRefusedError as error:
        raise SaslAuthenticationFailedError(error.title) from error


class ScramMechanism(SaslMechanismScram):
    """The library's exchange, which says of a token that it is one."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        if isinstance(config["sasl_plain_username"], TokenId):
            self._scram_client = _TokenScramClient(
                config["sasl_plain_username"],
                config["sasl_plain_password"],
                config["sasl_mechanism"],
            )


class _TokenScramClient(ScramClient):
    def first_message(self) -> bytes:
        message: bytes = super().first_message() + b",tokenauth=true"
        self.auth_message += b",tokenauth=true"
        return message
