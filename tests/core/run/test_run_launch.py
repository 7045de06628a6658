"""What a run's options learn of the cluster before it starts."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_help import SLOW, Here
from clusters import MB, load_of, tp
from clusters import cluster as state_of
from run_help import Faulty, Start, cluster, throttles
from waiting import eventually

from core import paths
from core.cli.common import prompts as confirming
from core.cluster.connect import Address, Connection
from core.cluster.metadata import Broker
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode, RefusedError, TrimtabError, UnreachableError, UsageError
from core.plan.copies import Side
from core.plan.plan import Plan
from core.run import audit, recovery, service
from core.run import run_process as spawning
from core.run.journal.journal import Journal, JournalError
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.launch import with_batches
from core.run.options import RunOptions, address_of
from core.run.recovery import recover
from core.run.reporting.runs import read_journal
from core.run.run_process import BusyError, take_lock
from core.run.steps import Poll


def case():
    state = state_of({f"t-{i}": [1] for i in range(30)}, brokers=(1, 2), size_bytes=20 * MB)
    plan = Plan()
    for i in range(30):
        plan = plan.with_target(state, tp(f"t-{i}"), (2,))
    return state, load_of(state, MB), plan


def test_a_run_has_batches_of_all_its_moves() -> None:
    state, load, plan = case()
    options = with_batches(RunOptions(5 * MB, batch_size=8), state, load, plan)
    assert sorted(i for batch in options.batches for i in batch) == list(range(30))
    assert max(map(len, options.batches)) <= 8
    assert options.auto is None
    assert options.produced == dict.fromkeys(range(30), MB)


def test_adaptive_run_gets_batches_for_its_least_rate_and_knows_the_spare_bandwidth() -> None:
    state, load, plan = case()
    state = state.with_brokers([Broker(1, out_capacity_bytes_per_s=100e6), Broker(2)])
    auto = RateBounds(2 * MB, 100 * MB)
    options = with_batches(RunOptions(50 * MB, auto=auto), state, load, plan)
    assert len(options.batches[0]) == 1
    assert options.auto is not None
    assert options.auto.spare_bytes_per_s == {(1, Side.LEADER): 70e6}


pytestmark = pytest.mark.long

# -- with processes of their own -------------------------------------------------------------------


def killed(here: Here, plan: Path) -> str:
    """Start a run and kill its process while its moves are in flight; return its id."""
    run = str(json.loads(here("apply", plan, *SLOW)[1])["run"])
    eventually(lambda: bool(here.client.fetch_reassignments()))
    os.kill(read(here, run)["pid"], signal.SIGKILL)
    eventually(lambda: read(here, run)["state"] == "died")
    return run


def read(here: Here, run: str) -> dict[str, Any]:
    document = json.loads(here("runs", "show", run, "--json")[1])
    assert isinstance(document, dict)
    return document


def test_dead_run_is_shown_with_the_attach_command_that_recovers_it(here: Here) -> None:
    plan = here.plan(skip=50)
    before = here.replicas(plan)
    run = killed(here, plan)
    code, out, _ = here("runs", "show", run)
    assert code == ExitCode.INCOMPLETE
    assert f"trimtab runs attach {run} --yes" in out
    code, out, err = here("runs", "attach", run, "--json")
    assert code == ExitCode.INCOMPLETE, "nothing is done without a word, where nobody can be asked"
    assert json.loads(out.splitlines()[-1])["left"]
    assert here.client.fetch_reassignments()
    # Requests wait for it meanwhile.
    code, out, err = here("runs", "pause", run, "--json")
    assert code == ExitCode.INCOMPLETE
    assert json.loads(out)["waits"]
    assert "waits in its journal" in err
    code, _, err = here("runs", "cancel", run, "--yes")
    assert code == ExitCode.INCOMPLETE
    assert f"trimtab runs attach {run} --yes" in err
    code, _, err = here("--timeout", "9s", "runs", "attach", run, "--yes", "--json")
    assert code == ExitCode.INCOMPLETE, err
    document = read(here, run)
    assert document["state"] == "cancelled"
    assert here.replicas(plan) == before
    audited = [line.entry["what"] for line in audit.read() if line.entry is not None]
    asked = [what for what in audited if what in ("apply", "request", "bring back")]
    assert asked == ["apply", "request", "request", "bring back"]
    assert {"configs", "submit", "cancel", "answer"} <= set(audited)
    assert audit.verify(audit.read()).problem is None
    assert "No throttle is set." in here("throttles", "ls")[2]
    journal = paths.runs_dir(here.state().cluster_id) / f"{run}.run"
    with Journal.open(journal) as opened:
        records = opened.records()
    assert sum(record.kind is Kind.STARTED for record in records) == 2
    assert address_of(records).timeout_seconds == 9.0, "its process was told"
    code, _, err = here("runs", "attach", run, "--yes")
    assert code == ExitCode.INCOMPLETE, "it has ended: it is told how, and nothing is brought back"


def test_attach_on_a_terminal_prompts_for_the_cluster_name_first(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed(here, here.plan(skip=60))
    monkeypatch.setattr(confirming.sys.stdin, "isatty", lambda: True)
    asked: list[str] = []
    answers = iter(["wrong", read(here, run)["cluster_name"]])

    def prompt(text: str, **_: Any) -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr(confirming.click, "prompt", prompt)
    code, _, err = here("runs", "attach", run)
    assert code == ExitCode.USAGE
    assert "nothing was changed" in err
    assert read(here, run)["state"] == "died"
    here("runs", "cancel", run, "--yes")
    here("runs", "attach", run)
    assert read(here, run)["state"] == "cancelled"
    assert len(asked) == 2
    assert "restart it" in asked[0]


# -- in this process -------------------------------------------------------------------------------

MOVED = Address("sim:moved")


class Dead:
    """A run that died with a move in flight, and where `connect` leads."""

    def __init__(self, run: Any, client: SimulatedCluster) -> None:
        self.run, self.client = run, client
        self.cluster_id = client.describe_cluster().cluster_id
        self.name = run.path.stem
        self.reached: list[Address] = []
        self.spawned: list[Address] = []

    def recover(self, address: Address | None = None, timeout: float | None = None) -> None:
        recover(self.cluster_id, self.name, address=address, timeout_seconds=timeout)


@pytest.fixture
def dead(start: Start, monkeypatch: pytest.MonkeyPatch) -> Dead:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (1, 3)})
    run.journal.write(run.client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    run.until(lambda step: isinstance(step, Poll))
    dead = Dead(run, run.client)

    def connect(address: Address) -> Connection:
        dead.reached.append(address)
        through: Any = Faulty(run.client)
        return Connection(through, run.client.clock, address)

    def spawn(path: Path, lock: int, address: Address, *, moved: bool) -> None:
        dead.spawned.append(address)
        assert service.serve(path, address if moved else None) == ExitCode.DONE

    monkeypatch.setattr(service, "connect", connect)
    monkeypatch.setattr(recovery, "connect", connect)
    monkeypatch.setattr(recovery, "spawn", spawn)
    monkeypatch.setattr(recovery, "GOING_SECONDS", 0.1)
    monkeypatch.setattr(SimulatedCluster, "close", lambda self: None)
    return dead


def test_recovered_run_continues_from_its_journal_to_the_end(dead: Dead) -> None:
    dead.recover()
    look = read_journal(dead.cluster_id, dead.name)
    assert look.view.state.value == "done"
    assert sum(record.kind is Kind.STARTED for record in look.records) == 2
    assert sum(record.kind is Kind.SUBMITTED for record in look.records) == 1
    texts = {value.value for answer in throttles(dead.client).values() for value in answer.values()}
    assert not {value for value in texts if value}, "throttles as found"
    assert {address.bootstrap for address in dead.reached} == {"sim:none"}


def test_recovered_run_uses_and_remembers_the_moved_bootstrap_address(dead: Dead) -> None:
    dead.recover(MOVED)
    assert {address.bootstrap for address in dead.reached} == {"sim:moved"}
    records = read_journal(dead.cluster_id, dead.name).records
    assert address_of(records) == MOVED


@pytest.mark.parametrize(
    ("address", "timeout"),
    [(None, 3.0), (replace(MOVED, timeout_seconds=3.0), None)],
)
def test_recovered_run_uses_and_remembers_another_timeout(
    dead: Dead, address: Address | None, timeout: float | None
) -> None:
    dead.recover(address, timeout)
    assert dead.reached[-1].timeout_seconds == 3.0
    assert address_of(read_journal(dead.cluster_id, dead.name).records).timeout_seconds == 3.0


@pytest.mark.parametrize("address", [None, MOVED, replace(MOVED, timeout_seconds=60.0)])
def test_recovery_connects_with_the_timeout_of_config_toml(
    dead: Dead, address: Address | None
) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(
        '[clusters.a]\nbootstrap = "sim:none,sim:moved"\ntimeout = "60s"\n'
    )
    dead.recover(address)
    assert [reached.timeout_seconds for reached in dead.reached] == [60.0, 60.0]
    assert [spawned.timeout_seconds for spawned in dead.spawned] == [None]
    assert address_of(read_journal(dead.cluster_id, dead.name).records).timeout_seconds is None


def test_running_run_is_not_recovered(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.daemons.process.Process.alive", property(lambda _: True))
    dead.recover()
    assert not dead.spawned


def _ended(dead: Dead) -> None:
    dead.run.journal.write(dead.client.now, Kind.ENDED, {"outcome": "done", "why": ""})


def _newer(dead: Dead) -> None:
    database = sqlite3.connect(dead.run.path)
    database.execute("PRAGMA user_version = 99")
    database.close()


def _truncated(dead: Dead) -> None:
    dead.run.journal._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    dead.run.journal.close()
    content = dead.run.path.read_bytes()
    dead.run.path.write_bytes(content[: len(content) // 2])


def _busy(dead: Dead) -> None:
    dead.run.lock = take_lock(dead.cluster_id)


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (_ended, UsageError, "nothing to bring back"),
        (_newer, JournalError, "newer trimtab: it has format 99"),
        (_truncated, JournalError, "is damaged"),
        (_busy, BusyError, "in progress on this cluster"),
    ],
)
def test_run_that_cannot_be_recovered_is_refused_in_one_sentence(
    dead: Dead, spoil: Any, error: type[TrimtabError], says: str
) -> None:
    spoil(dead)
    with pytest.raises(error, match=says) as raised:
        dead.recover()
    assert "\n" not in raised.value.title
    assert not dead.spawned
    if spoil is _busy:
        os.close(dead.run.lock)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("attempt to write a readonly database", "cannot be written: attempt to write a readonly"),
        ("database or disk is full", "disk is full"),
    ],
)
def test_run_whose_journal_cannot_be_written_is_not_recovered(
    dead: Dead, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    class Full:
        in_transaction = False

        def __init__(self, real: Any) -> None:
            self._real = real

        def execute(self, words_: str, *more: Any) -> Any:
            if words_.startswith("PRAGMA user_version ="):
                raise sqlite3.OperationalError(words)
            return self._real.execute(words_, *more)

        def close(self) -> None:
            self._real.close()

    real = Journal.open

    def opened(path: Path) -> Journal:
        journal = real(path)
        full: Any = Full(journal._database)
        return Journal(path, full)

    monkeypatch.setattr(Journal, "open", opened)
    with pytest.raises(JournalError, match=says):
        dead.recover()
    assert not dead.spawned


def test_recovery_at_an_address_of_another_cluster_is_refused(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = cluster({"u": [(1, 2)]})
    through: Any = Faulty(other)
    named = other.describe_cluster()
    through.replaced["describe_cluster"] = lambda real: type(named)(
        **{**{f: getattr(named, f) for f in named.__dataclass_fields__}, "cluster_id": "other"}
    )
    monkeypatch.setattr(recovery, "connect", lambda a: Connection(through, other.clock, a))
    with pytest.raises(RefusedError, match="is cluster other; run"):
        dead.recover(MOVED)
    assert not dead.spawned


def test_dead_run_is_left_as_it_was_if_the_cluster_does_not_answer(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(address: Address) -> Connection:
        raise UnreachableError("Nothing answers there.")

    monkeypatch.setattr(recovery, "connect", nobody)
    with pytest.raises(UnreachableError) as raised:
        dead.recover()
    assert "-b HOST:PORT" in raised.value.next
    assert not dead.spawned


def test_dead_run_is_left_as_it_was_if_its_new_process_does_not_start(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its log said before belongs to the process that died."""
    where = spawning.log_path(dead.run.path)
    where.parent.mkdir(parents=True)
    where.write_text("an old line\n")

    def fails(path: Path, lock: int, address: Address, *, moved: bool) -> None:
        with where.open("a") as log:
            log.write("there is no room\n")

    monkeypatch.setattr(recovery, "spawn", fails)
    monkeypatch.setattr(recovery, "take_lock", lambda cluster_id: os.open(os.devnull, os.O_RDONLY))
    with pytest.raises(TrimtabError, match="did not come up") as raised:
        dead.recover()
    assert raised.value.detail == "there is no room"
    with Journal.open(dead.run.path) as journal:
        assert not journal.requests(), "it is not cancelled"
