"""Where `collect` takes bytes from: what its options mean, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated import small_spec

from core.cli.load.source_options import choose_source
from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import UsageError
from core.load.sources.prometheus import Query


@pytest.mark.parametrize(
    ("source", "name", "seconds"),
    [
        (None, None, 10.0),
        ("cruise-control", "cruise-control", 60.0),
        ("automq", "automq", 10.0),
        ("https://prometheus.example:9090/prefix", "prometheus", 60.0),
        ("HTTP://prometheus.example", "prometheus", 60.0),
    ],
)
def test_source_option_selects_the_source_and_its_interval(
    source: str | None, name: str | None, seconds: float
) -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1,)]}))
    connection = Connection(cluster, cluster.clock, Address("sim:nowhere"))
    chosen = choose_source(source, Query(), None, None)
    opened = chosen.open(connection, chosen.interval_seconds)
    assert (opened and opened.name, chosen.interval_seconds) == (name, seconds)


@pytest.mark.parametrize(
    ("source", "query", "token_file"),
    [
        ("prometheus", Query(), None),
        ("ftp://prometheus.example", Query(), None),
        ("https://", Query(), None),
        (None, Query(match='cluster="prod"'), None),
        ("automq", Query(broker_label="node"), None),
        ("cruise-control", Query(), Path("token")),
    ],
)
def test_invalid_source_options_are_refused(
    source: str | None, query: Query, token_file: Path | None
) -> None:
    with pytest.raises(UsageError) as error:
        choose_source(source, query, token_file, None)
    assert error.value.next
