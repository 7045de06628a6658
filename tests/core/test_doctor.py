"""`trimtab doctor`: what it finds at a cluster, each with its own remedy."""

from __future__ import annotations

import pytest

from core.cli.doctor import rights
from core.cluster.broker_logs import BrokerLogs
from core.errors import AccessDeniedError


def denied() -> object:
    raise AccessDeniedError("The cluster says no.")


@pytest.mark.parametrize(
    ("error", "found", "remedy"),
    [
        (None, "yes", ""),
        ("CLUSTER_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "Allow DESCRIBE"),
        ("ECONNREFUSED", "broker 2 does not say: ECONNREFUSED", "Look whether that broker is well"),
    ],
)
def test_log_dirs_that_are_not_told_have_the_remedy_of_their_cause(
    error: str | None, found: str, remedy: str
) -> None:
    logs = (BrokerLogs(1), BrokerLogs(2, error=error))
    finding, _ = rights(lambda: logs, dict)
    assert finding.found == found
    assert finding.remedy.startswith(remedy)


def test_a_refusal_is_a_finding() -> None:
    _, finding = rights(lambda: (), denied)
    assert (finding.found, finding.remedy) == (
        "The cluster says no.",
        "Allow DESCRIBE on the cluster.",
    )
