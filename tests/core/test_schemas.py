"""What the command line prints is what docs/schemas promises."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from clusters import MB, cluster, load_of
from test_cli_plan import Here, here  # noqa: F401 - a fixture
from test_reassignment import PLAN

from core.cluster.document import ClusterDocument, to_json
from core.plan.reassignment import dump

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def validate(name: str, document: object) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_schemas(path):
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


COMMANDS = [
    ("plan-check", ["plan", "check"], {"t0": [0, 1, 2]}),
    ("plan-check", ["plan", "check", "--throttle", "1MB/s"], {"t0": [0, 2]}),
    ("plan-show", ["plan", "show"], {"t0": [1, 0], "t1": [1, 3]}),
    ("plan-diff", ["plan", "diff"], {"t0": [1, 0], "t1": [1, 2], "t7": [1]}),
    ("plan", ["plan", "inverse"], {"t0": [1, 0], "t1": [1, 3]}),
    ("estimate", ["estimate", "--throttle", "10MB/s"], {"t0": [0, 2], "t1": [3, 2]}),
    ("estimate", ["estimate", "--throttle", "1MB/s"], {"t0": [0, 2]}),
    ("estimate", ["estimate", "--throttle", "-1"], {"t0": [0, 2]}),
    ("estimate", ["estimate", "--within", "1m"], {"t0": [0, 2]}),
    ("estimate", ["estimate", "--within", "1s"], {"t0": [0, 2]}),
    ("estimate", ["estimate", "--throttle", "10MB/s"], {"t0": [1, 0]}),
    ("estimate-rates", ["estimate"], {"t0": [0, 2], "t1": [3, 2]}),
    ("verify", ["verify"], {"t0": [0, 1], "t1": [3, 2], "t7": [1]}),
]


@pytest.mark.parametrize(("name", "command", "targets"), COMMANDS)
def test_what_a_command_prints(here, name, command, targets):  # noqa: F811
    validate(name, here.json(*command, here.plan(**targets))[1])


def test_plan_files():
    validate("plan", json.loads(dump(PLAN)))


def test_cluster_documents():
    state = cluster(
        {"t-0": [0, 1], "t-1": [1, 2]},
        racks={0: "a"},
        size_bytes={"t-0": MB},
        disk_bytes=(10 * MB, 5 * MB),
        isr={"t-1": [1]},
    )
    load = load_of(state, {"t-0": 1.5})
    document = to_json(ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s))
    validate("cluster", json.loads(json.dumps(document, allow_nan=False)))
