"""GSSAPI: a login by a Kerberos ticket, which a keytab gets or `kinit` has got.

Properties are Kafka's, with librdkafka's where it has others. Which KDC there is says krb5.conf.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import DocumentError, LoginRefusedError

GSSAPI = "GSSAPI"
SERVICE, PRINCIPAL, KEYTAB = (
    f"sasl.kerberos.{name}" for name in ("service.name", "principal", "keytab")
)
_INERT = (
    *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
    *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
)
"""What says how a ticket is renewed: the Kerberos library does so when one is wanted."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """`principal` and `keytab` are None where the ticket cache has what is wanted."""

    service: str
    """The first part of the brokers' own principals, as in kafka/broker-1@REALM."""
    principal: str | None = None
    keytab: Path | None = None

    @property
    def mechanism(self) -> str:
        return GSSAPI

    def check(self) -> None:
        """Raise LoginRefusedError where there is no ticket, and none to be got."""
        self.credentials()

    def credentials(self) -> Any:
        """Return gssapi's credentials, with a ticket that is valid; raises as `check`."""
        import gssapi

        try:
            name = None
            if self.principal is not None:
                name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
            store = None
            if self.keytab is not None:
                cache = f"MEMORY:trimtab-{self.principal}"
                store = {"client_keytab": str(self.keytab), "ccache": cache}
            credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
            credentials.inquire()  # a keytab is used, and a cache is read, no sooner
        except gssapi.exceptions.GSSError as error:
            raise self._no_ticket_error(describe_error(error)) from error
        return credentials

    def _no_ticket_error(self, reason: str) -> LoginRefusedError:
        if self.keytab is None:
            return LoginRefusedError(
                f"There is no Kerberos ticket: {reason}.",
                next="Run kinit, or name a keytab: useKeyTab=true keyTab=… principal=… in "
                "sasl.jaas.config.",
            )
        return LoginRefusedError(
            f"{self.principal} gets no Kerberos ticket by {self.keytab}: {reason}.",
            next=f"See whether that keytab has its key: klist -k {self.keytab}.",
        )

    def find_user(self) -> str:
        """Return the first part of the principal, which is whom brokers take it for by default."""
        name = self.principal or str(self.credentials().name)
        return name.partition("@")[0].partition("/")[0]

    def librdkafka_config(self) -> None:
        """Return None: librdkafka's wheels are built without Kerberos."""

    def kafka_python_config(self) -> dict[str, Any]:
        return {"sasl_mechanism": GSSAPI, "sasl_kerberos_name": self}


def describe_error(error: Any) -> str:
    """Return what gssapi's error says, without its codes."""
    messages = error.get_all_statuses(error.min_code, False) or [str(error)]
    return "; ".join(message.rstrip(".") for message in messages)


def read_kerberos(entries: dict[str, str], options: Mapping[str, str], path: Path) -> KerberosLogin:
    """Take a login by Kerberos out of a file's properties; raises DocumentError."""
    if importlib.util.find_spec("gssapi") is None:
        raise DocumentError(
            f"{path}: sasl.mechanism GSSAPI wants the package gssapi, which is not installed.",
            next="Install trimtab with its extra `kerberos`.",
        )
    for name in _INERT:
        entries.pop(name, None)
    service = entries.pop(SERVICE, None) or options.get("serviceName")
    if not service:
        raise DocumentError(
            f"{path}: sasl.kerberos.service.name is missing.",
            next="Set it to the first part of the brokers' principals, which mostly is kafka.",
        )
    principal = entries.pop(PRINCIPAL, None) or options.get("principal")
    keytab = entries.pop(KEYTAB, None) or options.get("keyTab")
    if keytab is None:
        return KerberosLogin(service, principal)
    if not principal:
        raise DocumentError(
            f"{path}: whose key of {keytab} logs in is not said.",
            next='Name it in sasl.jaas.config: principal="user@REALM".',
        )
    place = path.absolute().parent / keytab
    if not place.is_file():
        raise DocumentError(f"{path}: there is no keytab {place}.", next="Correct its path.")
    return KerberosLogin(service, principal, place)
