"""Which run is meant, by its name or without one, and what makes no sense to ask of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from in_process import Trimtab
from run_help import move

from core import paths
from core.cluster.connect import Address
from core.cluster.known_names import check_name
from core.errors import ExitCode
from core.plan.plan import Plan
from core.run.journal.journal import Journal, journal_path
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
RUN = "0302-090000"


class Runs:
    """Journals on this machine, and the command line that looks for them."""

    def __init__(self, trimtab: Trimtab) -> None:
        self._trimtab = trimtab

    def add(self, cluster_id: str, bootstrap: str, *, ended: bool = False, later: int = 0) -> str:
        plan = Plan(cluster_id, (move("t", 0, (1, 2), (3, 2)),))
        address, at = Address(bootstrap), AT + timedelta(hours=later)
        with create_journal(address, cluster_id, plan, RunOptions(1000), None, at=at) as journal:
            if ended:
                moved = {"index": 0, "phase": "done", "why": "", "leader": 3}
                journal.write(at, Kind.MOVED, {"moves": [moved], "stop": ""})
                journal.write(at, Kind.ENDED, {"outcome": "done", "why": ""})
            return journal.path.stem

    def show(self, run: str, *cluster: str) -> tuple[int, str]:
        return self(*cluster, "runs", "show", run)

    def request_kinds(self, cluster_id: str, run: str) -> list[str]:
        """Return what was asked of a run, and waits in its journal."""
        with Journal.open(journal_path(cluster_id, run)) as journal:
            return [request.kind for request in journal.requests(0)]

    def __call__(self, *words: str) -> tuple[int, str]:
        code, out, err = self._trimtab(*words)
        return code, out + err


@pytest.fixture
def runs(trimtab: Trimtab) -> Runs:
    return Runs(trimtab)


def test_exact_run_name_wins_over_a_prefix_match_on_another_cluster(runs: Runs) -> None:
    assert runs.add("one", "sim:one") == RUN
    assert [runs.add("two", "sim:two") for _ in range(2)] == [RUN, f"{RUN}-2"]
    journal_path("two", RUN).unlink()
    code, out = runs.show(RUN)
    assert (code, "t-0" in out) == (ExitCode.DONE, True), out


def test_runs_of_same_name_are_distinguished_by_cluster(runs: Runs) -> None:
    runs.add("one", "sim:one")
    runs.add("two", "sim:two")
    code, out = runs.show(RUN)
    assert code == ExitCode.USAGE
    assert f"{RUN} on sim:one, {RUN} on sim:two" in out
    assert f"Name its cluster as well: `trimtab -b HOST:PORT runs … {RUN}`." in out


def test_named_clusters_are_shown_by_name(runs: Runs) -> None:
    for cluster_id in ("one", "two"):
        runs.add(cluster_id, f"sim:{cluster_id}")
        check_name(f"the-{cluster_id}", cluster_id)
    _, out = runs.show(RUN)
    assert f"{RUN} on the-one, {RUN} on the-two" in out
    assert f"`trimtab --cluster the-one runs … {RUN}`" in out
    _, out = runs("runs", "ls")
    assert sorted(line.split()[1] for line in out.splitlines()[1:]) == ["the-one", "the-two"]
    assert "on the-one:" in runs("runs", "show", runs.add("one", "sim:one"))[1]


def test_run_of_another_cluster_than_the_named_one_is_refused(runs: Runs) -> None:
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text('[clusters.here]\nbootstrap = "sim:here"\n')
    check_name("here", "one")
    check_name("there", "two")
    runs.add("two", "sim:two")
    code, out = runs.show(RUN, "--cluster", "here")
    assert (code, f"Run {RUN} is on there, and not on here." in out) == (ExitCode.USAGE, True), out
    runs.add("one", "sim:one", later=1)
    assert runs.show("0302-100000", "--cluster", "here")[0] == ExitCode.DONE


def test_run_is_not_shown_under_a_name_that_another_cluster_has_by_now(runs: Runs) -> None:
    check_name("prod", "another")
    plan = Plan("one-of-long-ago", (move("t", 0, (1, 2), (3, 2)),))
    options = RunOptions(1000, cluster_name="prod")
    create_journal(Address("sim:x"), "one-of-long-ago", plan, options, None, at=AT).close()
    assert "on one-of-l:" in runs.show(RUN)[1]


def test_unreachable_cluster_is_identified_by_the_address_in_the_journal_of_its_run(
    runs: Runs,
) -> None:
    runs.add("one", "sim:one")
    runs.add("two", "sim:two")
    code, out = runs.show(RUN, "-b", "sim:two")
    assert (code, "t-0" in out) == (ExitCode.DONE, True), out
    code, out = runs.show(RUN, "-b", "sim:three")
    assert (code, f"{RUN} on sim:one, {RUN} on sim:two" in out) == (ExitCode.USAGE, True), out


LATER = "0302-100000"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("pause", "--floor"), "pause"),
        (("throttle", "5MB/s"), "throttle"),
        (("cancel", "--move", "t-0", "--yes"), "cancel"),
    ],
)
def test_request_without_a_name_goes_to_the_run_in_progress(
    runs: Runs, words: tuple[str, ...], kind: str
) -> None:
    runs.add("one", "sim:one")
    runs.add("one", "sim:one", ended=True, later=1)
    runs.add("two", "sim:two", ended=True, later=2)
    code, out = runs("runs", *words)
    assert (code, RUN in out) == (ExitCode.DONE, True), out
    assert (runs.request_kinds("one", RUN), runs.request_kinds("one", LATER)) == ([kind], [])


@pytest.mark.parametrize("command", ["pause", "resume", "cancel", "rollback", "attach"])
def test_no_request_goes_to_an_ended_run_that_was_not_named(runs: Runs, command: str) -> None:
    runs.add("one", "sim:one", ended=True)
    code, out = runs("runs", command)
    assert code == ExitCode.USAGE
    assert out == (
        "trimtab: No run is in progress here.\nGive an ID; `trimtab runs ls` lists all runs.\n"
    )


def test_request_with_several_runs_in_progress_requires_a_run_or_a_cluster(runs: Runs) -> None:
    runs.add("one", "sim:one")
    runs.add("two", "sim:two", later=1)
    code, out = runs("runs", "pause")
    assert code == ExitCode.USAGE
    assert (
        f"2 runs are in progress: {RUN} on sim:one, {LATER} on sim:two.\nGive the ID of one" in out
    )
    code, out = runs("-b", "sim:two", "runs", "pause")  # it is down: its address is known
    assert (code, runs.request_kinds("one", RUN), runs.request_kinds("two", LATER)) == (
        ExitCode.DONE,
        [],
        ["pause"],
    ), out


@pytest.mark.parametrize("command", ["show", "report"])
def test_without_a_name_the_run_in_progress_is_shown_else_the_newest(
    runs: Runs, command: str
) -> None:
    assert "No run is in progress here" in runs("runs", command)[1]
    runs.add("one", "sim:one", ended=True)
    runs.add("two", "sim:two", ended=True, later=1)
    code, out = runs("runs", command)
    assert (code, LATER in out) == (ExitCode.DONE, True), out
    third = runs.add("one", "sim:one", later=-1)
    code, out = runs("runs", command)
    assert (code, third in out) == (ExitCode.DONE, True), out


def test_unreadable_journal_is_named_where_no_run_is_found(runs: Runs) -> None:
    journal_path("one", runs.add("one", "sim:one")).write_bytes(b"no journal" * 100)
    code, out = runs("runs", "pause")
    assert code == ExitCode.USAGE
    assert out.startswith("trimtab: No run is in progress here. The journal ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("throttle",), "No throttle is given."),
        (("throttle", RUN, "5MB/s", "6MB/s"), "No throttle is given."),
        (("throttle", RUN, "0"), "moves nothing"),
        (("throttle", RUN, "10"), "A rate needs a unit: 10."),
        (("throttle", RUN, "-1"), "keeps its throttles"),
        (("throttle", RUN, "auto"), "auto needs bounds"),
        (("cancel", RUN, "--move", "no-such-0", "--yes"), "does not move 'no-such-0'"),
        (("skip", RUN), "Which partitions?"),
        (("retarget", RUN, "no-such-0", "1,x", "--yes"), "Not broker ids"),
        (("resume", RUN), "nothing to resume"),
        (("rollback", RUN), "there is no terminal"),
        (("pause", "9999"), "No run here matches"),
        (("rollback", RUN, "--detach", "--yes"), "is for one that has ended"),
        (("rollback", RUN, "--throttle", "1MB/s", "--yes"), "is for one that has ended"),
        (("retry", RUN, "-o", "x.json", "--yes"), "is for one that has ended"),
    ],
)
def test_invalid_requests_are_refused_and_not_sent_to_the_run(
    runs: Runs, words: tuple[str, ...], says: str
) -> None:
    runs.add("one", "sim:one")
    code, out = runs("runs", *words)
    assert code in (ExitCode.USAGE, ExitCode.REFUSED)
    assert says in out
    assert runs.request_kinds("one", RUN) == []


@pytest.mark.parametrize(
    "words",
    [
        ("pause", RUN),
        ("resume", RUN),
        ("throttle", RUN, "5MB/s"),
        ("cancel", RUN, "--yes"),
        ("cancel", RUN, "--move", "t-0", "--yes"),
        ("skip", RUN, "t-0"),
        ("retarget", RUN, "t-0", "3,4", "--yes"),
        ("retry", RUN, "t-0"),
        ("rollback", RUN, "--yes"),
    ],
    ids=" ".join,
)
def test_no_request_goes_to_a_run_on_a_read_only_cluster(
    runs: Runs, words: tuple[str, ...]
) -> None:
    runs.add("one", "sim:one")
    paths.config_file().parent.mkdir(exist_ok=True)
    paths.config_file().write_text('[clusters.prod]\nbootstrap = "sim:one"\nread_only = true\n')
    code, out = runs("runs", *words)
    assert (code, "prod is marked read_only." in out) == (ExitCode.REFUSED, True), out
    assert runs.request_kinds("one", RUN) == []
