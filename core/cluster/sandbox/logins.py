"""Who may do what in a secured sandbox, and the client properties by which each comes in."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from core.cluster.access.rights import CLUSTER, GROUP, TOPIC, USES, Right
from core.cluster.kafka.connection.login.oauth import LOGIN_HANDLER
from core.cluster.kafka.connection.login.token_sources import ENDPOINT
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.wire import Wire
from core.cluster.sandbox.nodes import (
    ADMIN,
    SCRAM,
    Node,
    Role,
    authority_file,
    certificate_file,
    node_properties,
    write_properties,
)
from core.cluster.sandbox.token_endpoint import CLIENT, PATH
from core.errors import TrimtabError

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding

PRINCIPALS: Mapping[str, Collection[str]] = {
    "reader": ("read",),
    "operator": tuple(USES),
    "nobody": (),
}
"""Which uses of the cluster each of them has the rights for."""
_GRANT_SECONDS = 90.0
_RETRY_SECONDS = 0.1
_SECURITY = "org.apache.kafka.common.security"


class Way(Enum):
    """How somebody comes in; its value is in the name of the properties file."""

    SCRAM = "scram"
    OAUTH = "oauth"
    TLS = "tls"

    @property
    def mechanism(self) -> str | None:
        """Return the SASL mechanism; None where a certificate is shown instead."""
        return {Way.SCRAM: SCRAM, Way.OAUTH: "OAUTHBEARER", Way.TLS: None}[self]


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """One principal's way in: the addresses and the file for `-b` and `--command-config`."""

    name: str
    way: Way
    bootstrap: str
    properties: Path

    @property
    def principal(self) -> str:
        """Return whom brokers take it for."""
        return _principal(self.name, self.way)


def find_logins(nodes: Sequence[Node]) -> tuple[ClientLogin, ...]:
    """Return every way into a secured sandbox; none of one that is not."""
    endpoints = [node for node in nodes if node.role is Role.TOKENS]
    brokers = [node for node in nodes if node.role is Role.BROKER]
    logins = []
    for endpoint in endpoints:
        folder = endpoint.folder.parent / "clients"
        for name in PRINCIPALS:
            for way in Way:
                tls = way is Way.TLS
                bootstrap = ",".join(n.admin_address if tls else n.address for n in brokers)
                path = folder / f"{name}-{way.value}.properties"
                logins.append(ClientLogin(name, way, bootstrap, path))
    return tuple(logins)


def admin_properties(root: Path) -> Path:
    """Return the client properties of who may do everything; it comes in by a certificate."""
    return root / "clients" / f"{ADMIN}.properties"


def write_logins(nodes: Sequence[Node]) -> dict[str, str]:
    """Write everybody's client properties, and what the token endpoint knows them by.

    Returns their passwords, which are their clients' secrets, too.
    """
    (endpoint,) = (node for node in nodes if node.role is Role.TOKENS)
    root = endpoint.folder.parent
    passwords = {name: secrets.token_urlsafe(18) for name in PRINCIPALS}
    clients = {f"{CLIENT}{name}": password for name, password in passwords.items()}
    write_properties(endpoint.properties, {**node_properties(endpoint, nodes, {}), **clients})
    for login in find_logins(nodes):
        write_properties(
            login.properties,
            {
                "bootstrap.servers": login.bootstrap,
                **_properties(root, login.name, login.way, passwords[login.name], endpoint),
            },
        )
    write_properties(admin_properties(root), _certificate_properties(root, ADMIN))
    return passwords


def _properties(root: Path, name: str, way: Way, password: str, endpoint: Node) -> dict[str, str]:
    trusted = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority_file(root)),
    }
    match way:
        case Way.TLS:
            return _certificate_properties(root, name)
        case Way.SCRAM:
            return {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": SCRAM,
                "sasl.jaas.config": (
                    f"{_SECURITY}.scram.ScramLoginModule required "
                    f'username="{name}" password="{password}";'
                ),
                **trusted,
            }
        case Way.OAUTH:
            return {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                ENDPOINT: f"http://{endpoint.address}{PATH}",
                # As clients of every version of Kafka read it.
                "sasl.login.callback.handler.class": LOGIN_HANDLER,
                "sasl.jaas.config": (
                    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
                    f'clientId="{name}" clientSecret="{password}";'
                ),
                **trusted,
            }


def _certificate_properties(root: Path, name: str) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority_file(root)),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate_file(root, name)),
    }


def _principal(name: str, way: Way) -> str:
    return f"User:CN={name}" if way is Way.TLS else f"User:{name}"


# -- what they may do ------------------------------------------------------------------------------


def rights_of(name: str) -> frozenset[tuple[Right, str]]:
    """Return a principal's rights, each with the resource that it is on, "*" for all."""
    uses = [USES[use] for use in PRINCIPALS[name]]
    reading = USES["read"].rights
    return frozenset(
        (right, use.only_on if use.only_on and right not in reading else "*")
        for use in uses
        for right in use.rights
    )


def acl_bindings(principal: str, granted: Iterable[tuple[Right, str]]) -> list[AclBinding]:
    """Return what confluent-kafka calls the ACLs that allow somebody this."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    kinds = {CLUSTER: ResourceType.BROKER, TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}
    return [
        AclBinding(
            kinds[right.resource],
            "kafka-cluster" if right.resource is CLUSTER else name,
            ResourcePatternType.LITERAL,
            principal,
            "*",
            AclOperation[right.operation],
            AclPermissionType.ALLOW,
        )
        for right, name in granted
    ]


def grant_rights(
    admin: ConnectionSettings, passwords: Mapping[str, str], brokers: Sequence[int]
) -> None:
    """Let brokers know everybody's password and rights; returns once all of them do.

    Raises TrimtabError where they do not take them in time.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    from core.cluster.kafka.librdkafka import create_admin_client

    iterations = 4096
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations)
    upsertions = [
        UserScramCredentialUpsertion(name, info, password.encode())
        for name, password in passwords.items()
    ]
    principals = {_principal(name, way): name for name in PRINCIPALS for way in Way}
    bindings = [
        binding
        for principal, name in principals.items()
        for binding in acl_bindings(principal, rights_of(name))
    ]
    client = create_admin_client(admin)
    try:
        # Passwords first: a broker that has heard of the last right has heard of them, too.
        changes = client.alter_user_scram_credentials(upsertions)
        for future in (*changes.values(), *client.create_acls(bindings).values()):
            future.result(_GRANT_SECONDS)
    except KafkaException as error:
        raise TrimtabError(f"The sandbox's users could not be made: {error}.") from error
    finally:
        client.close()
    wait_for_acls(admin, len(bindings), brokers)


def wait_for_acls(admin: ConnectionSettings, count: int, brokers: Sequence[int]) -> None:
    """Return once each of these brokers knows so many ACLs; raises TrimtabError in time."""
    from kafka.protocol.admin import (
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ACLResourceType,
        DescribeAclsRequest,
    )

    def every_acl() -> DescribeAclsRequest:
        return DescribeAclsRequest(
            resource_type_filter=ACLResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=ACLResourcePatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
        )

    deadline = time.monotonic() + _GRANT_SECONDS
    wire = Wire(admin)
    try:
        while True:
            answers = wire.ask_each({broker: every_acl() for broker in brokers}).values()
            known = [
                0 if isinstance(answer, Exception) else sum(len(r.acls) for r in answer.resources)
                for answer in answers
            ]
            if all(number == count for number in known):
                return
            if time.monotonic() > deadline:
                raise TrimtabError("The brokers have not heard of all rights.", next="Try again.")
            time.sleep(_RETRY_SECONDS)
    finally:
        wire.close()
