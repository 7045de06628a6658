"""Balancers are known by their topics, and by those that config.toml names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from clusters import cluster

from core.cluster.balancers import (
    BALANCER_TOPICS,
    CONFIGURED_BALANCER,
    Balancer,
    find_balancer,
)
from core.cluster.metadata import Topic
from core.errors import UsageError
from core.settings import load_settings


@pytest.mark.parametrize("topic", BALANCER_TOPICS)
def test_known_topic_identifies_its_balancer(topic: str) -> None:
    state = cluster({"t-0": [1]}, topics=[Topic(topic)])
    assert find_balancer(state) == Balancer(BALANCER_TOPICS[topic], topic)


@pytest.mark.parametrize("topic", ["_confluent-telemetry-metrics", "cruise.control", "t"])
def test_unrelated_topics_reveal_no_balancer(topic: str) -> None:
    assert find_balancer(cluster({"t-0": [1]}, topics=[Topic(topic)])) is None


def test_topic_configured_in_config_toml_identifies_a_balancer(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('balancer_topics = ["ours.balance"]')
    state = cluster({"t-0": [1]}, topics=[Topic("ours.balance")])
    assert find_balancer(state) is None
    configured_state = replace(state, balancer_topics=load_settings(path).balancer_topics)
    assert find_balancer(configured_state) == Balancer(CONFIGURED_BALANCER, "ours.balance")


@pytest.mark.parametrize("text", ['"t"', "[1]", '[""]'])
def test_invalid_list_of_balancer_topics_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"balancer_topics = {text}")
    with pytest.raises(UsageError, match="balancer_topics"):
        load_settings(path)
