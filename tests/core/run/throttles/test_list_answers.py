"""Throttle lists of a cluster that does not tell what its controller holds."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import Faulty, cluster, set_config

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.plan.copies import Side
from core.run.throttles.write_and_read_back import fetch_list_answers

T = Resource.topic("t")


@pytest.mark.parametrize("settled", [True, False])
def test_of_a_cluster_that_does_not_tell_two_looks_must_agree(settled: bool) -> None:
    client = cluster({"t": [(1, 2)]})
    set_config(client, T, LEADER_LIST, "9:5")
    faulty = Faulty(client)

    def untold(real: Any, lists: Any) -> Any:
        return dict.fromkeys(lists, Fault("UNSUPPORTED_VERSION"))

    def another(real: Any, *asked: Any) -> Any:
        answer = real(*asked)
        if not settled:
            set_config(client, T, LEADER_LIST, "9:5,9:6")
        return answer

    faulty.replaced = {"fetch_list_entries": untold, "describe_configs": another}
    (answer,) = fetch_list_answers(faulty, client.clock, [("t", Side.LEADER)]).values()  # type: ignore[arg-type]
    if settled:
        assert answer == {"9:5"}
    else:
        assert isinstance(answer, Fault)
