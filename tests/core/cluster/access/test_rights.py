"""Which rights are missing, as far as brokers tell, and the kafka-acls commands for them."""

from __future__ import annotations

import pytest
from in_process import Trimtab

from core.cluster.access.rights import (
    CLUSTER,
    GROUP,
    TOPIC,
    USES,
    GrantedRights,
    Right,
    acl_commands,
)
from core.errors import ExitCode

ALL = frozenset(right.operation for use in USES.values() for right in use.rights)


def granted(
    cluster: frozenset[str] | None = ALL,
    topics: dict[str, frozenset[str]] | None = None,
    groups: dict[str, frozenset[str]] | None = None,
    *,
    hidden: bool = False,
) -> GrantedRights:
    return GrantedRights("User:ops", cluster, topics, groups, hidden)


@pytest.mark.parametrize(
    ("rights", "right", "missing"),
    [
        (granted(), Right(CLUSTER, "ALTER"), ()),
        (granted(frozenset({"DESCRIBE"})), Right(CLUSTER, "ALTER"), ("",)),
        (granted(frozenset()), Right(CLUSTER, "DESCRIBE"), ("",)),
        (granted(frozenset()), Right(CLUSTER, "ALTER"), None),
        (granted(None), Right(CLUSTER, "ALTER"), None),
        (granted(topics={"a": ALL, "b": ALL}), Right(TOPIC, "READ"), ()),
        (granted(topics={"b": frozenset(), "a": frozenset()}), Right(TOPIC, "READ"), ("a", "b")),
        (granted(topics={"a": ALL}, hidden=True), Right(TOPIC, "DESCRIBE"), ("",)),
        (granted(topics={"a": ALL}, hidden=True), Right(TOPIC, "READ"), ()),
        (granted(topics={}), Right(TOPIC, "READ"), None),
        (granted(topics=None), Right(TOPIC, "READ"), None),
        (granted(groups={"g": frozenset()}), Right(GROUP, "DESCRIBE"), ("g",)),
        (granted(groups={}), Right(GROUP, "DESCRIBE"), None),
    ],
)
def test_right_is_granted_missing_or_unknown(
    rights: GrantedRights, right: Right, missing: tuple[str, ...] | None
) -> None:
    assert rights.missing_on(right) == missing


def test_acl_commands_are_one_per_kind_of_resource() -> None:
    rights = [Right(TOPIC, "ALTER_CONFIGS"), Right(CLUSTER, "ALTER"), Right(TOPIC, "DESCRIBE")]
    topics, cluster = acl_commands(rights, "User:CN=ops, OU=sre", "b1:9092")
    assert topics == (
        "kafka-acls --bootstrap-server b1:9092 --command-config admin.properties --add "
        "--allow-principal 'User:CN=ops, OU=sre' --operation AlterConfigs --operation Describe "
        "--topic '*'"
    )
    assert cluster.endswith("--operation Alter --cluster")


def test_every_use_includes_the_rights_for_reading() -> None:
    assert all(set(USES["read"].rights) <= set(use.rights) for use in USES.values())


def test_doctor_acls_requires_a_cluster(trimtab: Trimtab) -> None:
    code, _, err = trimtab("doctor", "--acls", "read")
    assert (code, "-b" in err) == (ExitCode.USAGE, True)
