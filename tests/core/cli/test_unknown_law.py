"""A law: take a fact away from a document, and no answer becomes more certain.

More certain is: an exit code of 0 in place of another one, unless it says what is not known; a
finding gone that none of what is unknown stands for; a number that is smaller, and not null; a √
that was not there; advice to delete that was not given.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import Hand
from run_help import Faulty
from run_help import cluster as simulated

from core.cli.cluster.doctor import Finding
from core.cli.main import run
from core.cluster.groups import GROUPS_HIDDEN, Group
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.simulation.spec import GroupSpec
from core.errors import AccessDeniedError

UNIT = 3_000_000
"""Bytes: of larger ones the copies are played out over hours, which takes minutes."""
UNKNOWN = re.compile(r"not known|unknown|nobody knows|cannot be said|not compared|No broker tells")
PLAN = {"u-2": [0, 2], "t-0": [1, 2], "t-1": [0]}
Document = dict[str, Any]


def clear(*path: str) -> Callable[[Document], None]:
    """Return what takes a key away from everything on a path of lists."""

    def clear_in(document: Document) -> None:
        nodes = [document]
        for key in path[:-1]:
            values = [each.get(key) or [] for each in nodes]
            nodes = [v for each in values for v in (each if isinstance(each, list) else [each])]
        for each in nodes:
            each[path[-1]] = None

    return clear_in


def only_last(name: str, key: str) -> Callable[[Document], None]:
    def clear_in(document: Document) -> None:
        document[name][-1][key] = None

    return clear_in


def not_hidden(document: Document) -> None:
    document["hidden_topics"] = None


def no_sizes(document: Document, *, last: bool = False) -> None:
    for partition in document["partitions"][-1:] if last else document["partitions"]:
        clear("size_bytes")(partition)
        clear("replica_detail", "size_bytes")(partition)


FACTS: Mapping[str, Callable[[Document], None]] = {
    "sizes": no_sizes,
    "one size": lambda document: no_sizes(document, last=True),
    "replicas' log dirs": clear("partitions", "replica_detail", "log_dir"),
    "log dirs": clear("brokers", "log_dirs"),
    "one broker's log dirs": only_last("brokers", "log_dirs"),
    "free space": clear("brokers", "log_dirs", "usable_bytes"),
    "disk sizes": clear("brokers", "log_dirs", "total_bytes"),
    "capacities": clear("brokers", "in_capacity_bytes_per_s"),
    "produced": clear("partitions", "in_bytes_per_s"),
    "one produced": only_last("partitions", "in_bytes_per_s"),
    "read": clear("partitions", "out_bytes_per_s"),
    "groups": clear("groups"),
    "lag": clear("groups", "lag"),
    "min.insync.replicas": clear("topics", "min_insync"),
    "retention": clear("topics", "retention_ms"),
    "cleanup": clear("topics", "cleanup_policy"),
    "remote storage": clear("topics", "remote_storage"),
    "topics' rows": clear("topics"),
    "hidden topics": not_hidden,
    "hidden topics' number": clear("hidden_topics", "topics"),
}
PLACED = {"t-0": [0, 1], "t-1": [0, 1], "t-2": [2, 0], "u-0": [0, 2], "u-1": [1, 0], "u-2": [0, 3]}


@st.composite
def clusters(draw: st.DrawFn) -> Document:
    """Draw a cluster of which all is known: even or not, with room or not, read or not."""
    number = st.integers(0, 6)
    free = [draw(st.sampled_from((1, 20, 90))) * UNIT for _ in range(4)]
    return {
        "format": "trimtab.cluster/1",
        "cluster_id": "law",
        "fetched_at": "2026-01-31T02:30:00Z",
        "controller": 0,
        "brokers": [
            {
                "id": id,
                "rack": "abcd"[id],
                "log_dirs": [
                    {"path": path, "total_bytes": 100 * UNIT, "usable_bytes": free[id] - n}
                    for n, path in enumerate(("/d1", "/d2"))
                ],
                "in_capacity_bytes_per_s": 8e6,
                "out_capacity_bytes_per_s": 2e7,
            }
            for id in range(4)
        ],
        "topics": [
            {
                "name": name,
                "id": name,
                "min_insync": draw(st.sampled_from((1, 2))),
                "retention_ms": 72 * 3_600_000,
                "cleanup_policy": "delete",
                "retention_bytes": -1,
                "remote_storage": draw(st.booleans()),
            }
            for name in "tu"
        ],
        "partitions": [
            {
                "topic": name[0],
                "partition": int(name[2:]),
                "leader": held[0],
                "replicas": held,
                "isr": held,
                "size_bytes": size,
                "in_bytes_per_s": draw(number) * 1e5,
                "out_bytes_per_s": draw(number) * 1e5,
                "replica_detail": [
                    {"broker": b, "size_bytes": size, "log_dir": draw(st.sampled_from(DIRS))}
                    for b in held
                ],
            }
            for name, held in PLACED.items()
            for size in [draw(number) * UNIT]
        ],
        "hidden_topics": draw(st.sampled_from((NOTHING_HIDDEN, HIDDEN))),
        "groups": [
            {
                "id": "etl",
                "state": "stable",
                "members": [],
                "lag": [{"topic": "t", "partition": 0, "lag": draw(st.sampled_from((0, 10**6)))}],
            }
        ],
    }


DIRS = ("/d1", "/d2")
NOTHING_HIDDEN: Document = {"topics": 0, "log_dirs": []}
HIDDEN: Document = {
    "topics": 1,
    "log_dirs": [{"broker": 0, "path": "/d1", "topics": 1, "replicas": 2, "bytes": 9 * UNIT}],
}


class Asker:
    """Asks a command about a document, as text and as JSON."""

    def __init__(self, folder: Path) -> None:
        self._cluster, self.plan = folder / "cluster.json", folder / "plan.json"
        rows = [{"topic": k[0], "partition": int(k[2:]), "replicas": v} for k, v in PLAN.items()]
        self.plan.write_text(json.dumps({"version": 1, "partitions": rows}))

    def __call__(self, document: Document, *words: str) -> tuple[int, str, Any]:
        self._cluster.write_text(json.dumps(document))
        code, text = self._run(*words)
        if words == ("show",):  # its document is what went in
            return code, text, None
        again, output = self._run(*words, "--json")
        assert again == code
        return code, text, json.loads(output)

    def _run(self, *words: str) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(lambda context: None, ["--from", str(self._cluster), *words])
        return code, out.getvalue() + ("" if "--json" in words else err.getvalue())


def _of_suggest(full: Any, less: Any, text: str) -> None:
    assert full["reached"] or not less["reached"] or UNKNOWN.search(" ".join(less["notes"]))
    if any("hidden" in note for note in full["notes"]):
        assert any("hidden" in note for note in less["notes"])


def _of_disks(full: Any, less: Any, text: str) -> None:
    assert full["reached"] or not less["reached"]
    if less["seconds"] is not None and less["seconds"] < (full["seconds"] or 0):
        assert UNKNOWN.search(" ".join(less["notes"]))


def _of_check(full: Any, less: Any, text: str) -> None:
    ids = {finding["id"] for finding in less["findings"]}
    blind = {check["id"] for check in less["not_compared"]}
    for gone in {finding["id"] for finding in full["findings"]} - ids:
        assert gone in blind or any(id.endswith("-unknown") for id in ids), gone


def _of_plan_show(full: Any, less: Any, text: str) -> None:
    assert less["bytes"] is None or less["bytes"] >= full["bytes"]


def _of_estimate(full: Any, less: Any, text: str) -> None:
    assert less["total_bytes"] in (None, full["total_bytes"])
    whole = {(row["broker"], row["side"]): row for row in full["rows"]}
    for row in less["rows"]:
        for key in ("bytes", "background_bytes_per_s"):
            assert row[key] in (None, whole[row["broker"], row["side"]][key])
    if full["never"] and not less["never"]:
        assert UNKNOWN.search(less["note"] or "") or less["near_capacity"] is None


def _of_impact(full: Any, less: Any, text: str) -> None:
    spare, unknown = len(less["headroom"]), less["headroom_unknown"]
    assert spare + unknown >= len(full["headroom"])
    if less["groups"] is not None and full["groups"]:
        assert len(less["groups"]) + len(less["groups_unknown"]) >= len(full["groups"])
    if less["shrinking"] is not None and less["shrinking"]["is_advised"]:
        assert full["shrinking"] is not None
        assert full["shrinking"]["is_advised"]


COMMANDS: Mapping[str, tuple[tuple[str, ...], Callable[[Any, Any, str], None] | None]] = {
    "suggest": (("plan", "suggest"), _of_suggest),
    "disks": (("plan", "suggest", "--disks"), _of_disks),
    "check": (("plan", "check", "PLAN"), _of_check),
    "plan show": (("plan", "show", "PLAN"), _of_plan_show),
    "impact": (("plan", "impact", "PLAN", "--retention", "6h"), _of_impact),
    "estimate": (("estimate", "PLAN", "--throttle", "5MB/s"), _of_estimate),
    "show": (("show",), None),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_removing_facts_from_a_document_makes_no_answer_more_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    # That copies are played out is for `estimate` to hold: it takes most of the time.
    monkeypatch.setattr("core.plan.estimate.rate_table.MANY", 0)
    ask = Asker(tmp_path)
    words, law = COMMANDS[command]
    words = tuple(str(ask.plan) if word == "PLAN" else word for word in words)

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(clusters(), st.sets(st.sampled_from(sorted(FACTS)), min_size=1, max_size=2))
    def holds(whole: Document, gone: Collection[str]) -> None:
        code, text, full = ask(whole, *words)
        less = json.loads(json.dumps(whole))
        for fact in sorted(gone):
            if less["topics"] or "topics" not in fact:
                FACTS[fact](less)
        now, less_text, less_answer = ask(less, *words)
        assert {code, now} <= {0, 5, 6}
        if code and not now:
            assert UNKNOWN.search(less_text)
        assert "hidden" in less_text or "hidden" not in text
        assert set(re.findall(r"√ \w+", less_text)) <= set(re.findall(r"√ \w+", text))
        if law is not None:
            law(full, less_answer, less_text)

    holds()


# -- what reads no document ------------------------------------------------------------------------


def refused(*_: Any, **__: Any) -> Any:
    raise AccessDeniedError("This user may not.")


def untold(of: Collection[int], why: str = "CLUSTER_AUTHORIZATION_FAILED") -> Callable[..., Any]:
    """Return what answers for log dirs where these brokers do not tell theirs."""
    return lambda real, brokers: tuple(
        BrokerLogs(logs.broker, error=why) if logs.broker in of else logs for logs in real(brokers)
    )


def listed(*, faults: Collection[Fault] = (), **changed: Any) -> Callable[..., Any]:
    """Return what lists groups, each otherwise in these fields, where brokers tell of `faults`."""

    def groups(real: Any, matching: Any = None, lost: Any = None) -> tuple[Group, ...]:
        for fault in faults:
            if lost is not None:
                lost(fault)
        return tuple(replace(group, **changed) for group in real(matching))

    return groups


NOT_THEIRS = Fault("GROUP_AUTHORIZATION_FAILED")
WITHHELD: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "log dirs": {"describe_log_dirs": untold((1, 2, 3))},
    "one broker's log dirs": {"describe_log_dirs": untold((2,))},
    "log dirs in time": {"describe_log_dirs": untold((1, 2, 3), "timed out")},
    "one broker's log dirs in time": {"describe_log_dirs": untold((3,), "timed out")},
    "configs": {"describe_configs": refused},
    "moves": {"describe_cluster": lambda real: replace(real(), moves_unknown="This user may not.")},
    "ends of logs": {"fetch_offsets": refused},
    "one end": {"fetch_offsets": lambda real, tps, at: real(list(tps)[1:], at)},
    "a broker's groups": {"describe_groups": listed(faults=[Fault("TIMED_OUT")])},
    "hidden groups": {"describe_groups": listed(faults=[GROUPS_HIDDEN])},
    "members": {
        "describe_groups": listed(fault=NOT_THEIRS, members=(), committed={}, state="unknown")
    },
    "committed": {"describe_groups": listed(committed_fault=NOT_THEIRS, committed={})},
}
LIVE = (("topics", "ls"), ("topics", "describe"), ("groups",), ("doctor",), ("show",))
TOLD = re.compile(r"found|remedy|needed_for|\w*unknown")
"""Keys that tell, in words, what is not known."""


def claims(full: Any, less: Any, at: str = "") -> Iterator[str]:
    """Yield where a JSON document says otherwise with a fact less: unknown is null, or said."""
    match full, less:
        case _, None | "unknown":
            pass
        case dict(), dict():
            if full.get("lag") is not None and less.get("lag_is_least"):
                assert (less["lag"] or 0) <= full["lag"]
                full, less = (group | {"lag": None, "lag_is_least": None} for group in (full, less))
            if less.get("unknown_brokers"):  # what is hidden is the least then
                for key in ("topics", "replicas", "bytes"):
                    assert less[key] is None or 0 < less[key] <= full[key]
                return
            for key in full:
                if not TOLD.fullmatch(key):
                    yield from claims(full[key], less[key], f"{at}.{key}")
        case list(), list():
            if all(isinstance(entry, dict) and "name" in entry for entry in (*full, *less)):
                have = {entry["name"]: entry for entry in less}
                full = [entry for entry in full if entry["name"] in have]
                less = [have[entry["name"]] for entry in full]
            for n, pair in enumerate(zip(full, less, strict=False)):
                yield from claims(*pair, f"{at}[{n}]")
        case _, False if at.endswith("fine"):
            pass
        case _ if full != less:
            yield f"{at}: {full!r} has become {less!r}"


@pytest.mark.parametrize("words", LIVE, ids=" ".join)
def test_withholding_facts_of_a_live_cluster_makes_no_answer_more_certain(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for machine in ("java", "clock", "logout", "data_folder"):  # of other programs and of a disk
        fine = Finding("fine", "yes")
        monkeypatch.setattr(f"core.cli.cluster.doctor.{machine}", lambda *_, fine=fine: fine)
    monkeypatch.setattr("core.cli.cluster.doctor.find_unreachable", lambda *_: {})
    read = GroupSpec("readers", ("orders",), members=2)
    living = simulated({"orders": [(1, 2), (2, 3)], "audit": [(3, 1)]}, groups=(read,))
    living.advance(60)
    for hidden in ([], ["audit"]):
        living.hide_topics(hidden)
        code, text, err = hand.on(living)(*words)
        assert not hidden or words == ("groups",) or code or "hidden" in err
        full = json.loads(hand(*words, "--json")[1])
        for name, replaced in WITHHELD.items():
            through = Faulty(living)
            through.replaced.update(replaced)
            less_code, less_text, less_err = hand.on(living, through)(*words)
            less_json_code, less_json, _ = hand(*words, "--json")
            if less_json_code and not less_json:
                continue  # no answer at all
            less = json.loads(less_json)
            assert less_code or not code, name
            assert [*claims(full, less)] == [], name
            if words == ("show",):  # its text is not all of its document
                full_told, less_content = full["hidden_topics"], less["hidden_topics"]
            else:
                full_told, less_content = full, less
            if less_content != full_told:  # and whoever reads it is told
                assert (less_text, less_err) != (text, err), name
