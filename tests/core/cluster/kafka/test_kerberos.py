"""GSSAPI: what of a file's properties the Kerberos library gets, and what comes of its errors.

The library itself is a stand-in: whoever wants it has to build it.
"""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kafka.errors import SaslAuthenticationFailedError

from core.cluster.kafka.connection.login import kerberos
from core.cluster.kafka.connection.login.kerberos import KerberosLogin
from core.cluster.kafka.connection.login.mechanisms import KerberosMechanism
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError, LoginRefusedError

FILE = "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n"
SERVICE = "sasl.kerberos.service.name=kafka\n"
JAAS = "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = f'{JAAS} useKeyTab=true keyTab="ops.keytab" principal="ops/bastion@TEST";\n'


class GSSError(Exception):
    min_code = 7

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        assert (code, is_major) == (self.min_code, False)
        return ["Ticket expired."]


class Library(ModuleType):
    """gssapi without a KDC: `failing` is whose call fails; `calls` has what each was given."""

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.__spec__ = importlib.machinery.ModuleSpec("gssapi", None)
        self.failing = ""
        self.calls: dict[str, Any] = {}
        self.exceptions = SimpleNamespace(GSSError=GSSError)
        self.NameType = SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
        self.MechType = SimpleNamespace(kerberos="kerberos")

    def Name(self, name: str, type: str) -> Any:
        return SimpleNamespace(name=name, canonicalize=lambda _: name)

    def Credentials(self, **options: Any) -> Any:
        return self._call("credentials", SimpleNamespace(inquire=dict, name="ann@TEST"), options)

    def SecurityContext(self, **options: Any) -> Any:
        return self._call("context", SimpleNamespace(step=lambda _: b"ticket"), options)

    def _call(self, name: str, answer: Any, options: Any) -> Any:
        self.calls[name] = options
        if self.failing == name:
            raise GSSError
        return answer


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    gssapi = Library()
    monkeypatch.setitem(sys.modules, "gssapi", gssapi)
    return gssapi


def load(tmp_path: Path, text: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(FILE + text)
    (tmp_path / "ops.keytab").touch()
    return ConnectionSettings.load("b1:9092", path)


@pytest.mark.parametrize(
    ("text", "principal", "keytab"),
    [
        (SERVICE, None, None),
        (f"{JAAS} useTicketCache=true serviceName=kafka;\n", None, None),
        (SERVICE + KEYTAB, "ops/bastion@TEST", "ops.keytab"),
        (
            f"{SERVICE}sasl.kerberos.keytab=ops.keytab\nsasl.kerberos.principal=ops@TEST\n",
            "ops@TEST",
            "ops.keytab",
        ),
        (f"{SERVICE}sasl.kerberos.kinit.cmd=/bin/kinit\n", None, None),
    ],
)
def test_kerberos_ticket_comes_from_the_cache_or_a_keytab(
    library: Library, tmp_path: Path, text: str, principal: str | None, keytab: str | None
) -> None:
    settings = load(tmp_path, text)
    place = None if keytab is None else tmp_path / keytab
    assert settings.login == KerberosLogin("kafka", principal, place)
    assert settings.ignored == ()
    settings.check_login()
    store = library.calls["credentials"]["store"]
    assert store is None if place is None else store["client_keytab"] == str(place)
    assert settings.login.find_user() == ("ann" if principal is None else "ops")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "service.name is missing"),
        (f"{SERVICE}{JAAS} keyTab=x principal=p;\n", "no keytab"),
        (f'{SERVICE}{JAAS} keyTab="ops.keytab";\n', "whose key"),
    ],
)
def test_missing_kerberos_service_name_keytab_or_principal_is_reported(
    library: Library, tmp_path: Path, text: str, what: str
) -> None:
    with pytest.raises(DocumentError, match=what) as refused:
        load(tmp_path, text)
    assert refused.value.next


def test_missing_gssapi_library_is_reported_with_install_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kerberos.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DocumentError, match="gssapi") as refused:
        load(tmp_path, SERVICE)
    assert "`kerberos`" in refused.value.next


@pytest.mark.parametrize(
    ("text", "what", "advice"),
    [(SERVICE, "no Kerberos ticket", "kinit"), (SERVICE + KEYTAB, "ops/bastion@TEST", "klist -k")],
)
def test_missing_kerberos_ticket_is_reported_before_contacting_a_broker(
    library: Library, tmp_path: Path, text: str, what: str, advice: str
) -> None:
    library.failing = "credentials"
    with pytest.raises(LoginRefusedError, match=what) as refused:
        load(tmp_path, text).check_login()
    assert "Ticket expired" in refused.value.title
    assert advice in refused.value.next


def test_kerberos_exchange_uses_the_host_of_the_connected_broker(
    library: Library, tmp_path: Path
) -> None:
    config = load(tmp_path, SERVICE).kafka_python_config()
    exchange = KerberosMechanism(host="b1.internal", **config)
    assert library.calls["context"]["name"] == "kafka@b1.internal"
    assert exchange.auth_bytes() == b"ticket"
    library.failing = "context"
    with pytest.raises(SaslAuthenticationFailedError, match="Ticket expired"):
        KerberosMechanism(host="b1.internal", **config)


def test_librdkafka_is_not_used_for_kerberos_logins(library: Library, tmp_path: Path) -> None:
    assert not load(tmp_path, SERVICE).suits_librdkafka
