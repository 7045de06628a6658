"""`snapshot verify`: a snapshot is sound, or it is said which file is not, why, and what to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from snapshots import make_snapshot

from core.cli.main import run
from core.load import load_paths as layout
from core.load.snapshot import writer as published
from core.load.snapshot.format import PARTITIONS

CLUSTER = "abc-DEF_1"
NAME = "0001-00000002"


def verify(
    root: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, Any], str]:
    """Return exit code and document of `snapshot verify`, and what it says in words."""
    place = ["--snapshots", str(root), "snapshot", "verify", *words]
    code = run(lambda _: None, [*place, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert run(lambda _: None, place) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, document, out


def test_published_snapshot_is_verified_as_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_snapshot(tmp_path, make_snapshot("0001-00000001"))
    published.write_snapshot(tmp_path, make_snapshot(NAME))
    code, document, out = verify(tmp_path, capsys)
    assert (code, document["verified"], document["problems"]) == (0, True, [])
    assert (document["snapshot_id"], document["partitions"]) == (NAME, 4)
    assert document["age_seconds"] > 0
    assert [(f["name"], f["rows"]) for f in document["files"]] == [("partitions.arrow", 4)]
    assert "sound" in out
    assert verify(tmp_path, capsys, "0001-00000001")[1]["snapshot_id"] == "0001-00000001"


def arrow(root: Path) -> Path:
    return layout.snapshots(root, CLUSTER) / NAME / PARTITIONS


def truncate(root: Path) -> None:
    arrow(root).write_bytes(arrow(root).read_bytes()[:-100])


def flip_a_bit(root: Path) -> None:
    content = bytearray(arrow(root).read_bytes())
    content[len(content) // 2] ^= 1
    arrow(root).write_bytes(content)


def put_another_in_its_place(root: Path, **changes: Any) -> None:
    """Let the file be another snapshot's, and both manifests vouch for it."""
    published.write_columns(arrow(root), make_snapshot(NAME, **changes))
    content = arrow(root).read_bytes()

    def vouch(document: Any) -> None:
        (file,) = document["files"]
        file["bytes"], file["sha256"] = len(content), hashlib.sha256(content).hexdigest()

    for path in (layout.current(root, CLUSTER), arrow(root).with_name("manifest.json")):
        change(path, vouch)


def change(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def fewer_rows(root: Path) -> None:
    put_another_in_its_place(
        root,
        **{
            name: getattr(make_snapshot(), name)[:3]
            for name in ("topic_of", "partition", "size_bytes", "growth_bytes_per_s", "leader")
        },
        quality=np.zeros(3, np.int8),
        method=np.zeros(3, np.int8),
        rates={key: column[:3] for key, column in make_snapshot().rates.items()},
    )


WRONG: list[tuple[Callable[[Path], Any], str, str]] = [
    (lambda root: arrow(root).unlink(), "partitions.arrow", "but missing"),
    (truncate, "partitions.arrow", "bytes, and"),
    (flip_a_bit, "partitions.arrow", "SHA-256"),
    (fewer_rows, "partitions.arrow", "3 rows, and its manifest says 4"),
    (
        lambda root: put_another_in_its_place(root, cluster_id="other"),
        "partitions.arrow",
        "of cluster other",
    ),
    (
        lambda root: put_another_in_its_place(root, brokers=()),
        "partitions.arrow",
        "other brokers' totals",
    ),
    (
        lambda root: change(layout.current(root, CLUSTER), lambda d: d.update(window_end="soon")),
        "CURRENT.json",
        "is damaged",
    ),
    (
        lambda root: change(layout.current(root, CLUSTER), lambda d: d.update(counts={"read": 9})),
        "CURRENT.json",
        "differs from",
    ),
    (lambda root: layout.current(root, CLUSTER).write_text("{"), "CURRENT.json", "is not JSON"),
    (lambda root: layout.current(root, CLUSTER).unlink(), "CURRENT.json", "is missing"),
    (
        lambda root: arrow(root).with_name("manifest.json").unlink(),
        "manifest.json",
        "is missing",
    ),
]


@pytest.mark.parametrize(("spoil", "file", "why"), WRONG, ids=[f"{f} {w}" for _, f, w in WRONG])
def test_damaged_snapshot_file_is_named_with_reason_and_next_step(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], Any],
    file: str,
    why: str,
) -> None:
    published.write_snapshot(tmp_path, make_snapshot("0001-00000001"))
    published.write_snapshot(tmp_path, make_snapshot(NAME))
    spoil(tmp_path)
    code, document, out = verify(tmp_path, capsys)
    assert (code, document["verified"]) == (6, False)
    (problem,) = document["problems"]
    assert problem["file"].endswith(file)
    assert why in problem["problem"]
    assert problem["next"] == layout.REPAIR
    assert problem["problem"] in out
    assert problem["next"] in out


def test_later_format_is_reported_as_needing_an_upgrade_and_not_as_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_snapshot(tmp_path, make_snapshot(NAME))
    layout.current(tmp_path, CLUSTER).write_text('{"format": "trimtab.snapshot/9"}')
    code, document, _ = verify(tmp_path, capsys)
    assert code == 6
    assert document["problems"][0]["next"] == "Install a trimtab that reads trimtab.snapshot/9."


@pytest.mark.parametrize("words", [(), ("nope",)])
def test_verify_without_a_matching_snapshot_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (tmp_path / "spool" / f"cluster={CLUSTER}").mkdir(parents=True)
    code = run(lambda _: None, ["--snapshots", str(tmp_path), "snapshot", "verify", *words])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "snapshot ls" in err
