"""`trimtab sandbox scenario` where no broker is needed: what it lists, shows, and exits with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import NOON

from core import paths
from core.cli.main import run
from core.cli.scenarios import self_balancing
from core.cli.scenarios.catalogue import SCENARIOS
from core.cli.scenarios.replicas import described, leaders, listed, rack_spread
from core.cli.scenarios.scenario import Scenario, Step, same
from core.cli.scenarios.stage import Stage
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import ExitCode, TrimtabError
from core.units import format_time

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]
GOOD = same("replicas", "1,2", "1,2")
BAD = same("leader", 1, 2)


class Brokers(SimpleNamespace):
    """A sandbox of no brokers, which knows whether it was stopped."""

    name, bootstrap, cluster_id, broker_ids, downs = "scenario-so", "h:1", "c", (1, 2), 0

    def down(self) -> None:
        self.downs += 1


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    found = Brokers()
    monkeypatch.setattr(Sandbox, "up", lambda *words, **more: found)
    return found


def given(monkeypatch: pytest.MonkeyPatch, *steps: Step | Exception) -> None:
    """Let there be one scenario `so`, which is played like this."""

    def play(stage: Stage) -> Iterator[Step]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            stage.tell("looking")
            yield step

    monkeypatch.setitem(SCENARIOS, "so", Scenario("so", "It is so.", (1, 2), 0, play))


def trimtab(capture: Capture, *words: str) -> tuple[int, str, str]:
    code = run(lambda context: None, ["sandbox", "scenario", *words])
    return code, *capture.readouterr()


def test_without_a_name_they_are_listed(capsys: Capture) -> None:
    code, listed, _ = trimtab(capsys)
    assert code == ExitCode.DONE
    assert all(found.name in listed and found.about in listed for found in SCENARIOS.values())
    _, document, _ = trimtab(capsys, "--json")
    assert [found["name"] for found in json.loads(document)] == list(SCENARIOS)


def test_an_unknown_one_is_refused_with_those_there_are(capsys: Capture) -> None:
    code, _, said = trimtab(capsys, "no-such")
    assert code == ExitCode.USAGE
    assert all(name in said for name in SCENARIOS)


def test_each_is_played_by_make_scenarios_and_written_down() -> None:
    (listed,) = re.findall(r"^SCENARIOS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert listed.split() == list(SCENARIOS)
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "scenarios.md").read_text(), re.M)
    assert set(SCENARIOS) <= set(headings)


def test_all_that_agrees_is_done(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, GOOD)
    code, shown, said = trimtab(capsys, "so")
    assert code == ExitCode.DONE
    assert re.search(r"^ok +replicas +1,2 +1,2$", shown, re.M)
    assert "1 of 1 agree" in shown
    assert "looking" in said
    assert "trimtab -b h:1" in said, "how to watch it"
    assert brokers.downs == 1


def test_one_that_does_not_agree_is_a_no(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, BAD, GOOD)
    code, shown, _ = trimtab(capsys, "so")
    assert code == ExitCode.NO
    assert re.search(r"^NOT +leader +1 +2$", shown, re.M)
    assert "1 of 2 agree" in shown


def test_what_was_seen_until_a_command_failed_is_shown(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, GOOD, TrimtabError("A command of the scenario failed."))
    code, shown, said = trimtab(capsys, "so")
    assert code == ExitCode.FAILED
    assert "It did not get to its end: 1 of 1 agree" in shown
    assert "A command of the scenario failed." in said
    assert brokers.downs == 1
    _, shown, _ = trimtab(capsys, "so", "--json")
    assert json.loads(shown)["agrees"] is False
    assert [step["agrees"] for step in json.loads(shown)["steps"]] == [True]


def test_kept_brokers_stay_with_their_runs_and_their_autopilot_and_are_told(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, GOOD)
    runs, autopilot = paths.runs_dir("c"), paths.autopilot_dir("c")
    runs.mkdir(parents=True)
    autopilot.mkdir(parents=True)
    code, _, said = trimtab(capsys, "so", "--keep")
    assert code == ExitCode.DONE
    assert brokers.downs == 0
    assert runs.exists()
    assert autopilot.exists()
    assert "trimtab -b h:1 --write" in said
    assert "trimtab sandbox down --name scenario-so" in said
    trimtab(capsys, "so")
    assert not runs.exists(), "its cluster will not be met again"
    assert not autopilot.exists()


def test_long_cells_are_wrapped(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    given(monkeypatch, same("what", "seen " * 20, "seen " * 20))
    _, shown, _ = trimtab(capsys, "so")
    *rows, end = shown.splitlines()
    assert max(map(len, rows)) <= 80
    assert " ".join(rows[1:]).split().count("seen") == 40
    assert end.startswith("1 of 1 agree")


# -- what Kafka's tool prints ----------------------------------------------------------------------

TOLD = (
    "Topic: t\tTopicId: x\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: segment.bytes=1\n"
    "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 3,1,2\tIsr: \tElr: 3\tLastKnownElr: \n"
    "\tTopic: t\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,3\tElr: \tLastKnownElr: \n"
    "\tTopic: other\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"
)


def test_kafkas_description_is_read() -> None:
    rows = described(TOLD, ["t"])
    assert [(row.leader, row.replicas, row.isr) for row in rows] == [
        (2, (1, 2, 3), (2, 3)),
        (None, (3, 1, 2), ()),
    ]
    assert leaders(rows) == "2: 1"
    assert listed([row.replicas for row in rows]) == "1,2,3 3,1,2"
    both = described(TOLD, ["t", "other"])
    assert listed([row.replicas for row in both]) == "1 1,2,3 3,1,2"


@pytest.mark.parametrize(
    ("replicas", "spread"),
    [([(1, 2), (3, 2)], (0, 1)), ([(1, 2, 3)], (1, 1)), ([(1, 4, 2)], (0, 2))],
)
def test_racks_are_counted_for_each_partition(replicas: Any, spread: tuple[int, int]) -> None:
    assert rack_spread(replicas, {1: "a", 2: "b", 3: "c", 4: "a"}) == spread


# -- self-balancing --------------------------------------------------------------------------------


def test_a_run_that_no_decision_began_is_seen_and_breaks_nothing() -> None:
    flying = SimpleNamespace(events=lambda: [{"what": "ended", "ended_at": format_time(NOON)}])
    step = next(self_balancing._balanced(SimpleNamespace(), flying, NOON))  # type: ignore[arg-type]
    assert (step.seen, step.agrees) == ("none", False)


@pytest.mark.parametrize("decisions", [0, 1, 2])
def test_as_many_decisions_are_expected_as_are_accepted(decisions: int) -> None:
    events = [{"text": "decided to act: broker 1 is at 0%"}] * decisions
    stage = SimpleNamespace(document=lambda *words: events)
    *_, step = self_balancing._told(stage, NOON)  # type: ignore[arg-type]
    assert step.what == "the decision on the timeline"
    assert (step.expected, step.agrees) == ("one at least", decisions > 0)
