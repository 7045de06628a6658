"""A broker with rights and a listener for each way in: plain text, passwords, TLS, certificates."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.cluster.access.rights import Right
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox import nodes as layout
from core.cluster.sandbox import sandbox as sandboxes
from core.cluster.sandbox.logins import acl_bindings
from core.cluster.sandbox.nodes import HOST, Node
from core.cluster.sandbox.sandbox import Sandbox

PASSWORD = "changeit"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ODD_USER = "o=ps,a"
"""A user whose name SCRAM has to escape; a test that wants it makes it."""
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "OUTSIDE": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "LOGIN": "SASL_SSL",
    "MUTUAL": "SSL",
    "TOKENS": "SASL_PLAINTEXT",
}
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    f"super.users=User:admin;User:ann;User:CN=client;User:ANONYMOUS;User:svc;User:ops;User:{ODD_USER}\n"
)


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """Where its listeners are, and what clients have to know it by; `guest` may do nothing."""

    ports: dict[str, int]
    folder: Path

    def at(self, listener: str, host: str = HOST) -> str:
        return f"{host}:{self.ports[listener]}"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def client(self) -> Path:
        """A client's key and certificate, in one PEM file."""
        return self.folder / "client.pem"


def keytool(*words: str) -> None:
    subprocess.run(["keytool", *words], check=True, capture_output=True)


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_stores(folder: Path) -> None:
    """Make the broker's key store as keytool does, a PEM of its certificate, and clients' keys."""
    store = ("-keystore", str(folder / "broker.p12"), "-storepass", PASSWORD)
    keytool(
        *("-genkeypair", "-alias", "broker", "-keyalg", "EC", "-validity", "2", *store),
        *("-dname", "CN=broker", "-ext", f"san=ip:{HOST}", "-storetype", "PKCS12"),
    )
    openssl(
        *("pkcs12", "-in", str(folder / "broker.p12"), "-nokeys", "-passin", f"pass:{PASSWORD}"),
        *("-out", str(folder / "ca.pem")),
    )
    for name in ("client", "stranger"):
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-keyout", str(folder / f"{name}.key")),
            *("-out", str(folder / f"{name}.crt")),
        )
        both = ((folder / f"{name}.{kind}").read_text() for kind in ("key", "crt"))
        (folder / f"{name}.pem").write_text("".join(both))


@contextmanager
def acls(
    admin: ConnectionSettings, user: str, granted: Collection[tuple[Right, str]]
) -> Iterator[None]:
    """Let a user do this meanwhile: each right on the resource of this name, "*" for all."""
    from confluent_kafka.admin import AclBindingFilter, AdminClient

    client = AdminClient(admin.librdkafka_config())
    bindings = acl_bindings(f"User:{user}", granted)
    for future in client.create_acls(bindings).values():
        future.result(10)
    try:
        yield
    finally:
        filters = [
            AclBindingFilter(
                *(acl.restype, acl.name, acl.resource_pattern_type, acl.principal),
                *(acl.host, acl.operation, acl.permission_type),
            )
            for acl in bindings
        ]
        for future in client.delete_acls(filters).values():
            future.result(10)


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start the broker and, as rights are its controller's too, that with the same users."""
    make_stores(folder)
    # Chosen here, as the broker must know all its listeners before it is first started.
    given = layout.free_ports(1 + len(LISTENERS))  # the controller's comes first
    ports = dict(zip(LISTENERS, given[1:], strict=True))
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items())
    overrides = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.outside.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN} required;",
        "listener.name.outside.plain.sasl.jaas.config": (
            f'{LOGIN} required user_admin="right" user_guest="right";'
        ),
        "ssl.keystore.location": str(folder / "broker.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{LOGIN} required user_ann="right";',
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": (
            f'{TOKEN_LOGIN} required unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "client.crt"),
    }

    def written(
        nodes: Sequence[Node], overrides: Mapping[str, str], shared: Mapping[str, str]
    ) -> None:
        layout.write_files(nodes, overrides, shared)
        for node in nodes:
            with node.properties.open("a") as file:
                file.write(AUTHORIZER)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "free_ports", lambda count: given[:count])
        patch.setattr(sandboxes, "write_files", written)
        sandbox = Sandbox.up(f"secured-{os.getpid()}", (1,), overrides=overrides)
    yield SecuredBroker(ports, folder)
    sandbox.down()
