"""A cluster document as Arrow says what it says as JSON; a bad one is told in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of
from offline import Here

from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.cluster.documents.reader import read_document
from core.cluster.hidden_topics import HiddenLogDir, HiddenTopics
from core.errors import DocumentError, ExitCode

ROOT = Path(__file__).parents[4]


def document() -> ClusterDocument:
    state = cluster(
        {"b-0": [1, 2], "b-1": [2, 3, 1], "a-0": [7]},
        racks={1: "x"},
        dead=[3],
        isr={"b-1": [2]},
        adding={"b-1": [1]},
        size_bytes={"b-0": 5 * MB, "b-1": 7 * MB},
        disk_bytes=(100 * MB, 40 * MB),
    )
    load = load_of(state, {"b-0": 3.5, "b-1": np.nan, "a-0": 0.0})
    return ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)


def test_it_says_what_json_says(tmp_path: Path) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    assert document_to_json(read_document(tmp_path / "c.arrow")) == document_to_json(document())


def test_that_moves_were_not_seen_is_kept_in_both_forms(tmp_path: Path) -> None:
    state = replace(document().state, moves_unknown="This user may not list them.")
    hidden = replace(document(), state=state)
    arrow.write_arrow(hidden, tmp_path / "c.arrow")
    (tmp_path / "c.json").write_text(json.dumps(document_to_json(hidden)))
    for name in ("c.arrow", "c.json"):
        assert read_document(tmp_path / name).state.moves_unknown == "This user may not list them."


@pytest.mark.parametrize(
    "hidden",
    [
        None,
        HiddenTopics(),
        HiddenTopics(2, (HiddenLogDir(1, "/d", 2, 3, 9),), unknown_brokers=(2,)),
        HiddenTopics(unknown_brokers=(2,)),
        HiddenTopics(unknown_brokers=(1, 2), why_unknown="this user may not describe log dirs"),
    ],
)
def test_what_is_hidden_is_kept_in_both_forms(tmp_path: Path, hidden: HiddenTopics | None) -> None:
    alive = [replace(broker, alive=True) for broker in document().state.brokers]
    written = replace(
        document(), state=replace(document().state.with_brokers(alive), hidden=hidden)
    )
    arrow.write_arrow(written, tmp_path / "c.arrow")
    (tmp_path / "c.json").write_text(json.dumps(document_to_json(written)))
    for name in ("c.arrow", "c.json"):
        assert read_document(tmp_path / name).state.hidden == hidden


def test_a_hundred_thousand_partitions_are_the_same_columns(tmp_path: Path) -> None:
    state, load = skewed(Shape(20, 100_000, "new"))
    written = ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)
    arrow.write_arrow(written, tmp_path / "c.arrow")
    found = read_document(tmp_path / "c.arrow")
    assert found.state.metadata_hash == state.metadata_hash
    assert np.array_equal(found.state.size_bytes, state.size_bytes)
    assert np.array_equal(found.in_bytes_per_s, load.in_bytes_per_s)


def test_a_part_of_a_table_is_read_from_where_it_begins(tmp_path: Path) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    table = feather.read_table(str(tmp_path / "c.arrow"))
    twice = pa.concat_tables([table, table]).combine_chunks().slice(len(table))
    feather.write_feather(twice, str(tmp_path / "d.arrow"), compression="uncompressed")
    assert document_to_json(read_document(tmp_path / "d.arrow")) == document_to_json(document())


def test_rates_that_are_missing_are_unknown(tmp_path: Path) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    table = feather.read_table(str(tmp_path / "c.arrow"))
    at = table.column_names.index("in_bytes_per_s")
    rates = pa.array([None, 1.0, None], pa.float64())
    spoilt = table.set_column(at, "in_bytes_per_s", rates)
    feather.write_feather(spoilt, str(tmp_path / "d.arrow"), compression="uncompressed")
    found = read_document(tmp_path / "d.arrow").in_bytes_per_s
    assert np.array_equal(found, [np.nan, 1.0, np.nan], equal_nan=True)


def test_it_is_read_without_pandas(tmp_path: Path) -> None:
    """pyarrow's own way to NumPy imports it, which takes longer than to plan a small cluster."""
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    code = (
        "import sys; from pathlib import Path; from core.cluster.documents.reader import "
        "read_document; read_document(Path(sys.argv[1])); sys.exit('pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "c.arrow")]
    subprocess.run(command, cwd=ROOT, check=True)


def test_the_command_writes_it_by_its_ending_and_reads_it(saved: Here) -> None:
    arrow = saved.folder / "c.arrow"
    assert saved.run("show", "--json", "-o", str(arrow))[0] == ExitCode.DONE
    as_json = saved.json("show")[1]
    saved.cluster = arrow
    assert saved.json("show")[1] == as_json


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def other(path: Path) -> None:
    feather.write_feather(pa.table({"x": [1]}), str(path), compression="uncompressed")


def newer(path: Path) -> None:
    table = feather.read_table(str(path))
    metadata = {
        key: value.replace(b"trimtab.cluster/1", b"trimtab.cluster/2")
        for key, value in table.schema.metadata.items()
    }
    table = table.replace_schema_metadata(metadata)
    feather.write_feather(table, str(path), compression="uncompressed")


def without_a_column(path: Path) -> None:
    table = feather.read_table(str(path)).drop_columns(["leader"])
    feather.write_feather(table, str(path), compression="uncompressed")


def of_another_type(path: Path) -> None:
    table = feather.read_table(str(path))
    at = table.column_names.index("leader")
    spoilt = table.set_column(at, "leader", table.column("leader").cast(pa.int64()))
    feather.write_feather(spoilt, str(path), compression="uncompressed")


def out_of_order(path: Path) -> None:
    table = feather.read_table(str(path)).take([2, 1, 0])
    feather.write_feather(table, str(path), compression="uncompressed")


def with_values(name: str, values: list[object]) -> Callable[[Path], None]:
    """Return what writes other values into a column of three partitions."""

    def spoil(path: Path) -> None:
        table = feather.read_table(str(path))
        at = table.column_names.index(name)
        column = pa.array(values, table.schema.field(name).type)
        feather.write_feather(
            table.set_column(at, name, column), str(path), compression="uncompressed"
        )

    return spoil


def out_of_its_values(path: Path) -> None:
    """Let a list reach beyond its values: its offsets are the first buffer of them."""
    content = bytearray(path.read_bytes())
    offsets = np.array([0, 1, 3, 6], np.int32).tobytes()
    at = content.find(offsets)
    assert at > 0
    content[at + 12 : at + 16] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut, "it is damaged, or not whole"),
        (other, "it is an Arrow file of something else"),
        (newer, "its format is trimtab.cluster/2, and this trimtab reads trimtab.cluster/1"),
        (without_a_column, "it has no column leader"),
        (of_another_type, "its column leader holds int64, not int32"),
        (out_of_order, "its partitions are not in order"),
        (out_of_its_values, "it is damaged, or not whole"),
        (with_values("replica_broker", [[7], [1, 2], [2, 2, 1]]), "twice on one broker"),
        (with_values("replica_broker", [[7], [1, 2], [2, 3, -1]]), "a replica is on no broker"),
        (with_values("leader", [7, 1, 8]), "a partition is led by none of its replicas"),
        (with_values("leader", [7, None, 2]), "leader has a value that is missing"),
        (with_values("lag", [[0], [0, 0], [0, 0]]), "its columns are not of one length"),
        (with_values("size_bytes", [[0], [0, -2], [0, 0, 0]]), "size_bytes has a value that"),
        (with_values("log_dir", [[0], [0, 99], [0, 0, 0]]), "in a log dir that is not named"),
        (with_values("in_bytes_per_s", [1.0, -1.0, 0.0]), "has a value that is no rate"),
    ],
)
def test_a_bad_one_is_told_in_one_sentence(tmp_path: Path, spoil, words: str) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    spoil(tmp_path / "c.arrow")
    with pytest.raises(DocumentError, match=words):
        read_document(tmp_path / "c.arrow")
