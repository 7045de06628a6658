"""The pages on steering and recovering runs, played on real brokers: all commands they name."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from doc_pages import command_lines
from on_kafka import client_with, require_room
from page_shell import DOCS, Shell, shell

from core.cluster.configs import FOLLOWER_RATE, LEADER_RATE, ConfigChange, ConfigOp, Resource
from core.cluster.kafka.client import KafkaClient
from core.cluster.sandbox.sandbox import Sandbox
from tests.waiting import eventually

BEFORE, PLANNED = [1, 2, 3], [4, 2, 3]
BYTES_EACH, RATE = 8_000_000, "100kB/s"
"""More than a quota's window lets through at once, and than a slow machine types commands for."""
FAST = "20MB/s"
TOPIC = "orders"
"""The pages' own, of which they name a partition."""
PARTITIONS = tuple(f"{TOPIC}-{number}" for number in range(4))


class Reader:
    """Somebody who types the commands of a page, at a terminal on the machine of the runs."""

    def __init__(self, bash: Shell, page: str, folder: Path) -> None:
        self._bash, self._folder = bash, folder
        self.unread = {shlex.join(words) for words in command_lines(DOCS / page)}
        self._page = frozenset(self.unread)

    def type(self, command: str, *exits: int, partition: str = "orders-0") -> str:
        """Run a command of the page, of the newest run and this partition: it exits with these."""
        assert command in self._page, f"the page does not name {command}"
        self.unread.discard(command)
        line = command.replace("HOST:PORT", "$TRIMTAB_BOOTSTRAP")
        line = re.sub(r"\bID\b", lambda _: self._bash.newest_run(), line)
        return self._run(line.replace("orders-0", partition), *exits)

    def start(self, partitions: Sequence[str], rate: str, *options: str) -> None:
        """Start a run of these partitions, and return once it has something in flight."""
        numbers = [int(name.removeprefix(f"{TOPIC}-")) for name in partitions]
        rows = [{"topic": TOPIC, "partition": p, "replicas": PLANNED} for p in numbers]
        plan = {"version": 1, "partitions": rows}
        (self._folder / "plan.json").write_text(json.dumps(plan))
        self._run(f"apply plan.json --throttle {rate} --yes --detach {' '.join(options)}")
        eventually(lambda: "moving" in {move["state"] for move in self.show()["moves"]}, every=0.2)

    def show(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._bash.run("trimtab runs show --json")[1])
        return document

    def waiting(self) -> list[str]:
        """Return the partitions whose moves have not begun."""
        queued = [move for move in self.show()["moves"] if move["state"] == "queued"]
        return [f"{move['topic']}-{move['partition']}" for move in queued]

    def kill(self) -> None:
        os.kill(self.show()["pid"], signal.SIGKILL)

    def _run(self, line: str, *exits: int) -> str:
        code, printed = self._bash.run(f"trimtab {line}")
        assert code in (exits or (0,)), f"{line}\n{printed}"
        return printed


def layout(client: KafkaClient) -> dict[str, tuple[int, ...]]:
    state = client.describe_cluster()
    rows = (state.replicas(row) for row in state.partitions_of(TOPIC))
    return dict(zip(PARTITIONS, rows, strict=True))


def planned(partitions: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the layout in which these are where a plan puts them, the others as before."""
    return dict.fromkeys(PARTITIONS, tuple(BEFORE)) | dict.fromkeys(partitions, tuple(PLANNED))


def speed_up(client: KafkaClient) -> None:
    """Raise the throttles that a run has left, so that its moves end soon."""
    rates = [
        ConfigChange(Resource.broker(broker), name, ConfigOp.SET, "20000000")
        for broker in (1, 2, 3, 4)
        for name in (LEADER_RATE, FOLLOWER_RATE)
    ]
    assert not any(client.alter_configs(rates).values())


@pytest.fixture
def orders(sandbox: Sandbox) -> Iterator[KafkaClient]:
    require_room(sandbox)
    with client_with(sandbox, {TOPIC: [BEFORE] * len(PARTITIONS)}, BYTES_EACH) as client:
        yield client


def test_commands_of_the_page_on_steering_a_run_work_as_written(
    orders: KafkaClient, sandbox: Sandbox, empty_home: Path, tmp_path: Path
) -> None:
    variables = {"TRIMTAB_HOME": str(empty_home), "TRIMTAB_BOOTSTRAP": sandbox.bootstrap}
    with shell(tmp_path, **variables) as bash:
        reader = Reader(bash, "how-to/steer-run.md", tmp_path)
        reader.start(PARTITIONS, RATE, "--max-extra", "3MB")
        reader.type("runs ls")
        reader.type("runs show")
        reader.type("runs pause --floor")
        reader.type("runs resume")
        reader.type("runs pause")  # so that what has not begun does not begin meanwhile
        retargeted, *_, skipped = reader.waiting()
        reader.type("runs skip ID orders-0", partition=skipped)
        reader.type("runs retarget ID orders-0 4,2,1", partition=retargeted)
        eventually(lambda: (4, 2, 1) in map(tuple, _targets(reader)))
        reader.type("runs cancel ID --move orders-0", partition=retargeted)
        reader.type("runs resume")
        reader.type(f"runs throttle {FAST}")
        reader.type("runs attach", 5, 2)  # 2: it has ended already
        done = [name for name in PARTITIONS if name not in (skipped, retargeted)]
        assert layout(orders) == planned(done)
        reader.type("runs retry ID")
        assert layout(orders) == {**planned([*done, skipped]), retargeted: (4, 2, 1)}
        reader.type("runs rollback ID -o back.json")
        assert (tmp_path / "back.json").is_file()
        reader.type("runs rollback ID")
        assert layout(orders) == planned(done)
        reader.start([skipped], RATE)
        reader.type("runs cancel")
        assert layout(orders) == planned(done)
        assert not reader.unread
        assert bash.run("trimtab throttles ls")[1] == "No throttle is set.\n"


def _targets(reader: Reader) -> list[list[int]]:
    return [move["after"] for move in reader.show()["moves"]]


def test_commands_of_the_page_on_recovering_a_run_work_as_written(
    orders: KafkaClient, sandbox: Sandbox, empty_home: Path, tmp_path: Path
) -> None:
    page, bootstrap = "how-to/recover-run.md", {"TRIMTAB_BOOTSTRAP": sandbox.bootstrap}
    with (
        shell(tmp_path, TRIMTAB_HOME=str(empty_home), **bootstrap) as bash,
        shell(tmp_path, TRIMTAB_HOME=str(tmp_path / "another"), **bootstrap) as elsewhere,
    ):
        reader = Reader(bash, page, tmp_path)
        reader.start(PARTITIONS[:1], RATE)
        reader.kill()
        assert "died" in reader.type("runs ls")
        reader.type("runs show", 5)
        assert bash.run(f"trimtab runs throttle {FAST}")[0] == 5  # it waits in the journal
        reader.type("runs attach --yes")
        assert layout(orders) == planned(PARTITIONS[:1])
        reader.start(PARTITIONS[:2], RATE)
        reader.kill()
        reader.type("runs cancel ID", 5)
        reader.type("-b HOST:PORT runs attach ID", 5)
        assert layout(orders) == planned(PARTITIONS[:1])
        reader.start(PARTITIONS[:2], RATE)
        reader.kill()
        stranger = Reader(elsewhere, page, tmp_path)
        assert f"{TOPIC}-1" in stranger.type("runs show foreign")
        stranger.type("throttles ls")
        speed_up(orders)
        stranger.type("runs attach --foreign")
        stranger.type("throttles clear --yes")
        assert elsewhere.run("trimtab throttles ls")[1] == "No throttle is set.\n"
        stranger.type("elect --dry-run")
        stranger.type("plan suggest -o rest.json", 0, 6)
        assert layout(orders) == planned(PARTITIONS[:2])
        assert not reader.unread & stranger.unread
