"""The users of a secured sandbox: their rights are the table's, their files their owner's only."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from core import paths
from core.cluster.access.rights import USES
from core.cluster.kafka.connection.certificates import find_principal
from core.cluster.kafka.connection.properties import read_properties
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.authority import write_certificates
from core.cluster.sandbox.logins import (
    PRINCIPALS,
    Way,
    admin_properties,
    find_logins,
    rights_of,
    write_logins,
)
from core.cluster.sandbox.nodes import (
    ADMIN,
    Node,
    authority_file,
    certificate_file,
    plan_nodes,
    write_files,
    write_properties,
)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, ...]:
    """A secured sandbox, as it is before its processes start."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    root = paths.sandbox_dir("default")
    nodes = plan_nodes(root, (1, 2), racks=0, controllers=1, secured=True)
    write_files(nodes, {})
    write_certificates(root, (ADMIN, *PRINCIPALS))
    write_logins(nodes)
    return nodes


def test_reader_and_operator_rights_come_from_the_uses_table() -> None:
    assert rights_of("reader") == {(right, "*") for right in USES["read"].rights}
    assert {right for right, _ in rights_of("operator")} == {
        right for use in USES.values() for right in use.rights
    }
    beyond = {name for _, name in rights_of("operator")} - {"*"}
    assert beyond == {USES["probe"].only_on}
    assert rights_of("nobody") == frozenset()


@pytest.mark.parametrize("way", [Way.SCRAM, Way.TLS])
def test_each_login_resolves_to_the_principal_that_holds_its_rights(
    nodes: tuple[Node, ...], way: Way
) -> None:
    logins = [login for login in find_logins(nodes) if login.way is way]
    assert [login.name for login in logins] == list(PRINCIPALS)
    for login in logins:
        settings = ConnectionSettings.load(login.bootstrap, login.properties)
        settings.check_key()
        assert settings.ignored == ()
        assert find_principal(settings) == login.principal
        assert read_properties(login.properties)["bootstrap.servers"] == login.bootstrap


def test_secret_files_are_accessible_only_to_their_owner(nodes: tuple[Node, ...]) -> None:
    root = nodes[0].folder.parent
    written = [*(root / "clients").iterdir(), *(root / "security").iterdir()]
    secret = [*written, *(node.properties for node in nodes)]
    assert admin_properties(root) in secret
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_certificates_are_issued_by_the_authority_and_valid_for_this_host(
    nodes: tuple[Node, ...],
) -> None:
    root = nodes[0].folder.parent
    (authority,) = x509.load_pem_x509_certificates(authority_file(root).read_bytes())
    for name in (ADMIN, *PRINCIPALS):
        (own,) = x509.load_pem_x509_certificates(certificate_file(root, name).read_bytes())
        own.verify_directly_issued_by(authority)
        hosts = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(host) for host in hosts.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
        ssl.create_default_context().load_cert_chain(certificate_file(root, name))


def test_unsecured_sandbox_has_no_logins(tmp_path: Path) -> None:
    assert find_logins(plan_nodes(tmp_path, (1,), racks=0, controllers=1)) == ()


@pytest.mark.parametrize("value", ["/höme/κ/𝄞", "C:\\x", 'a="b";'])
def test_properties_are_read_as_they_were_written(tmp_path: Path, value: str) -> None:
    path = tmp_path / "some.properties"
    write_properties(path, {"key": value})
    assert read_properties(path) == {"key": value}
