"""`trimtab doctor`: what it finds at a cluster, each with its own remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from core.cli.doctor import rights
from core.cluster.broker_logs import BrokerLogs
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import small_spec
from core.errors import AccessDeniedError
from core.run.others.probes import left_probes
from core.run.others.throttles import Known


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


@pytest.mark.parametrize(
    ("run", "living", "said"), [("r1", True, False), ("r1", False, True), ("r2", True, True)]
)
def test_a_probe_topic_of_a_run_that_is_not_in_progress_is_named(
    run: str, living: bool, said: bool
) -> None:
    state = SimulatedCluster(small_spec({"__trimtab_probe-r1": [(1,)], "t": [(1,)]})).describe()
    history: Any = SimpleNamespace(run=run)
    told = left_probes(state, [Known(history, living)])
    assert (
        told
        == ("topic __trimtab_probe-r1 is of the probe of run r1, which is not in progress here",)
        * said
    )
