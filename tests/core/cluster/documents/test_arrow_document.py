"""A cluster document as Arrow says what it says as JSON; a bad one is told in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of
from offline import Here

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.cluster.documents.reader import read_document
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


HIDDEN = HiddenLogDir(1, "/d", 2, 3, 9)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"moves_unknown": "This user may not list them."},
        {"hidden": HiddenTopics()},
        {"hidden": HiddenTopics(2, (HIDDEN,), unknown_brokers=(2,))},
        {"hidden": HiddenTopics(unknown_brokers=(2,))},
        {"hidden": HiddenTopics(unknown_brokers=(1, 2), why_unknown="not to be described")},
    ],
)
def test_arrow_and_json_forms_hold_the_same_document(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    state = document().state
    if "hidden" in changes:  # who is down does not tell what is hidden
        state = state.with_brokers([replace(broker, alive=True) for broker in state.brokers])
    written = replace(document(), state=replace(state, **changes))
    arrow.write_arrow(written, tmp_path / "c.arrow")
    (tmp_path / "c.json").write_text(json.dumps(document_to_json(written)))
    for name in ("c.arrow", "c.json"):
        copy = read_document(tmp_path / name)
        assert document_to_json(copy) == document_to_json(written)
        assert copy.state.hidden == written.state.hidden


def test_hundred_thousand_partitions_are_read_back_unchanged_from_arrow(tmp_path: Path) -> None:
    state, load = skewed(Shape(20, 100_000, "new"))
    written = ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)
    arrow.write_arrow(written, tmp_path / "c.arrow")
    copy = read_document(tmp_path / "c.arrow")
    assert copy.state.metadata_hash == state.metadata_hash
    assert np.array_equal(copy.state.size_bytes, state.size_bytes)
    assert np.array_equal(copy.in_bytes_per_s, load.in_bytes_per_s)


def test_sliced_arrow_table_is_read_from_its_offset(tmp_path: Path) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    rewritten(lambda table: pa.concat_tables([table, table]).combine_chunks().slice(len(table)))(
        tmp_path / "c.arrow"
    )
    assert document_to_json(read_document(tmp_path / "c.arrow")) == document_to_json(document())


def test_rates_that_are_missing_are_unknown(tmp_path: Path) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    with_values("in_bytes_per_s", [None, 1.0, None])(tmp_path / "c.arrow")
    rates = read_document(tmp_path / "c.arrow").in_bytes_per_s
    assert np.array_equal(rates, [np.nan, 1.0, np.nan], equal_nan=True)


def test_arrow_document_is_read_without_importing_pandas(tmp_path: Path) -> None:
    """pyarrow's own way to NumPy imports it, which takes longer than to plan a small cluster."""
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    code = (
        "import sys; from pathlib import Path; from core.cluster.documents.reader import "
        "read_document; read_document(Path(sys.argv[1])); sys.exit('pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "c.arrow")]
    subprocess.run(command, cwd=ROOT, check=True)


def test_show_writes_arrow_by_the_file_extension_and_reads_it_back(saved: Here) -> None:
    arrow = saved.folder / "c.arrow"
    assert saved.run("show", "--json", "-o", str(arrow))[0] == ExitCode.DONE
    as_json = saved.json("show")[1]
    saved.cluster = arrow
    assert saved.json("show")[1] == as_json


Spoil = Callable[[Path], object]


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Spoil:
    """Return what writes a changed table into the file of another."""

    def spoil(path: Path) -> None:
        table = change(feather.read_table(str(path)))
        feather.write_feather(table, str(path), compression="uncompressed")

    return spoil


def with_column(name: str, change: Callable[[pa.ChunkedArray], Any]) -> Spoil:
    return rewritten(
        lambda table: table.set_column(
            table.column_names.index(name), name, change(table.column(name))
        )
    )


def with_values(name: str, values: list[object]) -> Spoil:
    """Return what writes other values into a column of three partitions."""
    return with_column(name, lambda column: pa.array(values, column.type))


def newer(table: pa.Table) -> pa.Table:
    metadata = {
        key: value.replace(b"trimtab.cluster/1", b"trimtab.cluster/2")
        for key, value in table.schema.metadata.items()
    }
    return table.replace_schema_metadata(metadata)


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
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "it is damaged, or not whole"),
        (rewritten(lambda _: pa.table({"x": [1]})), "it is an Arrow file of something else"),
        (
            rewritten(newer),
            "its format is trimtab.cluster/2, and this trimtab reads trimtab.cluster/1",
        ),
        (rewritten(lambda table: table.drop_columns(["leader"])), "it has no column leader"),
        (
            with_column("leader", lambda column: column.cast(pa.int64())),
            "its column leader holds int64, not int32",
        ),
        (rewritten(lambda table: table.take([2, 1, 0])), "its partitions are not in order"),
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
def test_bad_arrow_document_is_reported_with_its_reason(
    tmp_path: Path, spoil: Spoil, words: str
) -> None:
    arrow.write_arrow(document(), tmp_path / "c.arrow")
    spoil(tmp_path / "c.arrow")
    with pytest.raises(DocumentError, match=words):
        read_document(tmp_path / "c.arrow")
