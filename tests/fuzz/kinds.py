"""What is fed to trimtab's loaders: good examples of each kind of file, and how they are read.

A kind is prepared in a folder of its own; each input is then written there, out of its dice, and
read as commands read it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fuzz.mutations import ODD_VALUES, damaged, damaged_database, damaged_text, odd_json

TESTS = Path(__file__).parents[1]
KEPT = TESTS / "compat" / "files"
STORES = TESTS / "core" / "cluster" / "kafka" / "stores"
CLUSTER_ID = "demo-e9699e5c828636fa"

Play = Callable[[random.Random], None]
"""Writes an input and reads it; raises what reading it raises."""


def _unpack(name: str, folder: Path) -> None:
    with tarfile.open(KEPT / name) as archive:
        archive.extractall(folder, filter="data")


# -- what a user writes ----------------------------------------------------------------------------

_PEM = "-----BEGIN CERTIFICATE-----\\nMIIBszCCAVmgAwIBAgIUXw==\\n-----END CERTIFICATE-----"
_MODULES = "org.apache.kafka.common.security."
_PROPERTIES = (
    f"""# Schlüssel
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_MODULES}scram.ScramLoginModule required \\
  username="u" password="p\\u00fc";
ssl.truststore.type=PEM
ssl.truststore.location=client-jks.pem
ssl.keystore.type=PEM
ssl.keystore.certificate.chain={_PEM}
ssl.keystore.key={_PEM}
ssl.key.password=s
ssl.endpoint.identification.algorithm=
""",
    """security.protocol=SSL
ssl.truststore.location=trust.jks
ssl.truststore.password=storepw
ssl.keystore.location=client.jks
ssl.keystore.password=storepw
ssl.key.password=keypass
ssl.enabled.protocols=TLSv1.2,TLSv1.3
ssl.cipher.suites=
""",
    """security.protocol=SSL
ssl.truststore.type=PKCS12
ssl.truststore.location=trust.pkcs12
ssl.truststore.password=storepw
ssl.keystore.type=PKCS12
ssl.keystore.location=client.pkcs12
ssl.keystore.password=storepw
""",
    f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=https://127.0.0.1:1/token
sasl.login.callback.handler.class={_MODULES}oauthbearer.OAuthBearerLoginCallbackHandler
sasl.jaas.config={_MODULES}oauthbearer.OAuthBearerLoginModule required clientId="c" \\
  clientSecret="s" scope="kafka";
""",
    """security.protocol = sasl_ssl
sasl.mechanisms = PLAIN
sasl.username: u
sasl.password: p
ssl.ca.location = client-jks.pem
ssl.ca.pem =
enable.ssl.certificate.verification=true
""",
    """config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=TRIMTAB_.*
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=${file:secrets.properties:user}
sasl.password=${env:TRIMTAB_HOME}
""",
    f"""security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="x";
ssl.truststore.certificates={_PEM}
""",
)
_BESIDE = ("client-jks.pem", "trust.jks", "client.jks", "trust.pkcs12", "client.pkcs12")


def properties(folder: Path) -> Play:
    from core.cluster.connect import Address, ignored_properties, java_client_properties
    from core.cluster.kafka.connection.settings import ConnectionSettings

    good = {name: (STORES / name).read_bytes() for name in _BESIDE}
    good["secrets.properties"] = b"user=alice\n"
    path = folder / "client.properties"
    every = [line for text in _PROPERTIES for line in text.split("\n")]

    def play(dice: random.Random) -> None:
        text = dice.choice(_PROPERTIES)
        beside = dice.random() < 0.25
        path.write_bytes(text.encode() if beside else damaged_text(text, dice, every))
        chosen = dice.choice([name for name in good if name in text] or [*good])
        for name, content in good.items():
            is_changed = beside and name == chosen
            (folder / name).write_bytes(damaged(content, dice) if is_changed else content)
        settings = ConnectionSettings.load("b1:9092", path)
        address = Address("b1:9092", path)
        match dice.randrange(4):  # each reads stores and keys, which takes long
            case 0:
                settings.librdkafka_config()
            case 1:
                settings.kafka_python_config()
            case 2:
                settings.check_key()
                ignored_properties(address)
            case _:
                java_client_properties(address)

    return play


def config(folder: Path) -> Play:
    from core.settings import load_settings

    text = (KEPT / "config.toml").read_text(encoding="utf-8")
    path = folder / "config.toml"

    def play(dice: random.Random) -> None:
        if dice.random() < 0.5:
            data = damaged_text(text, dice, text.split("\n"))
        else:
            data = _odd_toml(dice).encode("utf-8", "surrogatepass")
        path.write_bytes(data)
        settings = load_settings(path)
        for name, cluster in settings.clusters.items():
            settings.about(name, cluster.bootstrap)
        settings.timeout_of(None, "b1:9092")
        assert settings.read_only_servers is not None

    return play


_TOML_KEYS = (
    *("theme", "keys.quit", "notify.bell", "notify.command", "notify.webhook", "balancer_topics"),
    *(f"clusters.p.{key}" for key in ("bootstrap", "command_config", "read_only", "snapshots")),
    *(
        f"clusters.p.{key}"
        for key in ("timeout", "color", "metrics", "in_capacity", "out_capacity")
    ),
    "clusters",
)


def _odd_toml(dice: random.Random) -> str:
    """Return a table of known keys with odd values, as TOML writes them."""
    lines = ['clusters.p.bootstrap = "b:1"'] if dice.random() < 0.8 else []
    for key in dice.sample(_TOML_KEYS, dice.choice((1, 2, 3))):
        value = dice.choice(
            (*ODD_VALUES, ["a", 1], {"a": "b"}, "~x/y.prom", ":70000", "1h", "5MB/s")
        )
        lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    match value:
        case None:
            return '""'
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)


def plans(folder: Path) -> Play:
    from core.cluster.documents.reader import read_document
    from core.plan.formats.plan_document import read_document as read_plan_document
    from core.plan.formats.plan_document import read_topics_to_move
    from core.plan.formats.plan_file import format_plan_file, read_plan, refuse_unknown_topics

    _unpack("home.tar.xz", folder)
    saved = folder / "documents"
    state = read_document(saved / "cluster.json").state
    own = [json.loads((saved / f"{name}.json").read_bytes()) for name in ("suggested", "inverse")]
    rows = [
        {"topic": row["topic"], "partition": row["partition"], "replicas": row["replicas"]}
        for row in own[0]["partitions"]
    ]
    proposals = [
        {
            "topicPartition": {"topic": row["topic"], "partition": row["partition"]},
            "oldReplicas": row["replicas"][::-1],
            "newReplicas": row["replicas"],
        }
        for row in rows
    ]
    examples = [*own, {"version": 1, "partitions": rows}, {"proposals": proposals, "version": 1}]
    topics = {"version": 1, "topics": [{"topic": row["topic"]} for row in rows]}
    path = folder / "plan.json"

    def play(dice: random.Random) -> None:
        if dice.random() < 0.1:
            path.write_bytes(_odd_document(topics, dice))
            refuse_unknown_topics(state, read_topics_to_move(path))
            return
        path.write_bytes(_odd_document(dice.choice(examples), dice))
        if dice.random() < 0.3:
            read_plan_document(path)
        plan = read_plan(path, state if dice.random() < 0.8 else None)
        plan.inverse()
        format_plan_file(plan)

    return play


def _odd_document(document: Any, dice: random.Random) -> bytes:
    if dice.random() < 0.7:
        return odd_json(document, dice)
    return damaged(json.dumps(document).encode(), dice)


# -- what trimtab writes ---------------------------------------------------------------------------


def cluster_json(folder: Path) -> Play:
    document = _small_document(folder)
    path = folder / "cluster.json"

    def play(dice: random.Random) -> None:
        path.write_bytes(_odd_document(document, dice))
        _show(path)

    return play


def cluster_arrow(folder: Path) -> Play:
    from core.cluster.documents.arrow import write_arrow
    from core.cluster.documents.reader import parse_json

    document = parse_json(_small_document(folder), datetime(2026, 1, 1, tzinfo=UTC))
    good = folder / "good.arrow"
    write_arrow(document, good)
    content, path = good.read_bytes(), folder / "cluster.arrow"
    header = json.dumps(_header(content)).encode()

    def play(dice: random.Random) -> None:
        data = content
        if dice.random() < 0.3:
            data = _with_header(content, header, odd_json(json.loads(header), dice))
        for _ in range(dice.choice((0, 1, 1, 2)) if data is not content else 1):
            data = damaged(data, dice)
        path.write_bytes(data)
        _show(path)

    return play


def _header(content: bytes) -> Any:
    import pyarrow.ipc

    with pyarrow.ipc.open_file(content) as source:
        return json.loads(source.schema.metadata[b"trimtab.cluster"])


def _with_header(content: bytes, _: bytes, header: bytes) -> bytes:
    """Return an Arrow file with another header, as pyarrow writes it."""
    import pyarrow as pa
    import pyarrow.ipc

    table = pa.ipc.open_file(content).read_all()
    table = table.replace_schema_metadata({b"trimtab.cluster": header})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _small_document(folder: Path) -> Any:
    """Return a saved cluster with a few of its partitions: each input reads all of it."""
    _unpack("home.tar.xz", folder)
    document = json.loads((folder / "documents" / "cluster.json").read_bytes())
    document["partitions"] = document["partitions"][:6]
    named = {row["topic"] for row in document["partitions"]}
    document["topics"] = [topic for topic in document["topics"] if topic["name"] in named]
    for group in document.get("groups") or []:
        group["lag"] = [lag for lag in group["lag"] if lag["topic"] in named][:3]
        group["members"] = group["members"][:2]
    document["hidden_topics"] = {
        "topics": 1,
        "log_dirs": [{"broker": 1, "path": "/d", "topics": 1, "replicas": 2, "bytes": 3}],
        "unknown_brokers": [],
        "why_unknown": "",
    }
    return document


def _show(path: Path) -> None:
    from core.cluster.documents.cluster_document import document_to_json
    from core.cluster.documents.reader import read_document
    from core.load.load_source import document_load
    from core.load.view.totals import broker_totals
    from core.text.json_text import json_text

    document = read_document(path)
    broker_totals(document.state, document_load(document))
    json_text(document_to_json(document))


def manifests(folder: Path) -> Play:
    from core.cli.load.snapshot import _brokers, _hottest, _summary_json, _summary_row
    from core.load.snapshot.kept import read_kept
    from core.load.snapshot.manifest import cluster_ids, read_manifest
    from core.load.snapshot.reader import read_live, read_snapshot, verify_snapshot
    from core.text.json_text import json_text

    _unpack("home.tar.xz", folder)
    root = folder / "data" / "load"
    of_cluster = root / "snapshots" / f"cluster={CLUSTER_ID}"
    newest = of_cluster / "000000000037"
    names = {
        root / "snapshots" / "INDEX.json": 1,
        of_cluster / "CURRENT.json": 5,
        newest / "manifest.json": 3,
        newest / "partitions.arrow": 5,
        root / "live" / f"cluster={CLUSTER_ID}.arrow": 2,
    }
    for path in (of_cluster / "000000000036" / "manifest.json", *names):
        if path.name in ("manifest.json", "CURRENT.json"):
            manifest = json.loads(path.read_bytes())
            manifest["hot_partitions"] = manifest["hot_partitions"][:3]
            path.write_text(json.dumps(manifest))
    good = {path: path.read_bytes() for path in names}

    def play(dice: random.Random) -> None:
        (path,) = dice.choices([*names], [*names.values()])
        data = good[path]
        if path.suffix == ".json":
            changed = _odd_document(json.loads(data), dice)
        else:
            changed = damaged(data, dice)
        path.write_bytes(changed)
        try:
            cluster_ids(root)
            read_live(root, CLUSTER_ID)
            for kept in read_kept(root, CLUSTER_ID).snapshots:
                json_text(_summary_json(kept))
                _summary_row(kept)
            verify_snapshot(root, CLUSTER_ID)
            manifest = read_manifest(root, CLUSTER_ID)
            if manifest is not None:
                json_text(manifest.to_json())
                _brokers(manifest)
                _hottest(manifest)
            read_snapshot(root, CLUSTER_ID)
        finally:
            path.write_bytes(data)

    return play


def journals(folder: Path) -> Play:
    from core.run.reporting.documents import run_document, summary_document
    from core.run.reporting.report import markdown, report
    from core.run.reporting.runs import list_runs, read_journal, unreadable
    from core.text.json_text import json_text

    with tarfile.open(KEPT / "journals.tar.xz") as archive:
        examples = {
            member.name: content.read()
            for member in archive.getmembers()
            if (content := archive.extractfile(member)) is not None and member.size <= 40_000
        }
    place = Path(os.environ["TRIMTAB_HOME"]) / "data" / "runs"

    def play(dice: random.Random) -> None:
        name = dice.choice([*examples])
        _, cluster_id, file = name.split("/")
        shutil.rmtree(place, ignore_errors=True)
        (place / cluster_id).mkdir(parents=True)
        path = place / cluster_id / file
        path.write_bytes(examples[name])
        if dice.random() < 0.7:
            damaged_database(path, dice, ("records", "records", "samples", "requests"))
        else:
            path.write_bytes(damaged(examples[name], dice))
        if dice.random() < 0.3:
            for summary in list_runs(cluster_id):
                json_text(summary_document(summary))
            unreadable(cluster_id)
        reading = read_journal(cluster_id, path.stem)
        json_text(run_document(reading))
        report(reading)
        markdown(reading)

    return play


def timelines(folder: Path) -> Play:
    import numpy as np

    from core.cli.timeline.record import event_document
    from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
    from core.text.json_text import json_text
    from core.watch.timeline.coverage import find_gaps, list_brokers, list_topics
    from core.watch.timeline.store import Timeline
    from core.watch.timeline.text import format_event, group_events

    _unpack("home.tar.xz", folder)
    (good,) = (folder / "data" / "timeline").glob("*.timeline")
    _shorten_timeline(good)
    content, path = good.read_bytes(), folder / "x.timeline"
    tables = ("looks", "changes", "changes", "pictures", "pictures", "seen", "topics", "told")

    def play(dice: random.Random) -> None:
        path.write_bytes(content)
        if dice.random() < 0.7:
            damaged_database(path, dice, tables)
        else:
            path.write_bytes(damaged(content, dice))
        with closing(Timeline.read(path)) as timeline:
            span = timeline.span or timeline.note_span
            list_topics(timeline)
            list_brokers(timeline)
            if span is None:
                return
            now = max(span[1], datetime.now(UTC))
            find_gaps(timeline, None, None, now)
            events = list(timeline.events())
            for event in events:
                json_text(event_document(event))
                format_event(event)
            group_events(events)
            state = timeline.state_at(span[0] + (span[1] - span[0]) / 2)
            if state is not None and dice.random() < 0.1:  # it is large
                unknown = np.full(state.partition_count, np.nan)
                json_text(document_to_json(ClusterDocument(state, unknown, unknown)))

    return play


def _shorten_timeline(path: Path) -> None:
    """Keep some of a timeline's events: each input reads all of it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        for table, kept in (("changes", 40), ("told", 20)):
            database.execute(
                f"DELETE FROM {table} WHERE seq NOT IN"
                f" (SELECT seq FROM {table} ORDER BY seq LIMIT {kept})"
            )
        database.execute("DELETE FROM looks WHERE seq > (SELECT max(seq) FROM changes)")
        database.execute("VACUUM")


def logs(folder: Path) -> Play:
    from core.text.json_text import json_line
    from core.watch.statelog.files import find_log_files
    from core.watch.statelog.merge import EventFilter, MergeTally
    from core.watch.statelog.output import summary_document, summary_lines
    from core.watch.statelog.parallel import merge_lines
    from core.watch.statelog.timestamps import parse_zones

    zones = [parse_zones(()), parse_zones(("Europe/Berlin",)), parse_zones(("1=+02:00",))]
    example = _state_change_log()
    place = folder / "logs"

    def play(dice: random.Random) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for broker in range(dice.choice((1, 2))):
            data = damaged_text(example, dice, example.split("\n"))
            if dice.random() < 0.2:
                data = gzip.compress(data, 1)
                data = damaged(data, dice) if dice.random() < 0.7 else data
            name = dice.choice(("state-change.log", "state-change.log.2026-01-31-02", "s.log.gz"))
            (place / f"{name}-{broker}").write_bytes(data)
        zone = dice.choice(zones)
        log_files = find_log_files(sorted(place.iterdir()), zone)
        tally, as_json = MergeTally(), dice.random() < 0.5
        chosen = EventFilter(None, None, None, None, unknown=dice.random() < 0.5)
        for text in merge_lines(log_files.sources, chosen, {}, tally, as_json=as_json, processes=1):
            _require_harmless(text)
        json_line(summary_document(tally, log_files, zone, {}))
        list(summary_lines(tally, log_files, zone, {}, chosen.unknown))

    return play


def _require_harmless(text: str) -> None:
    odd = [c for c in text if not (c.isprintable() or c == "\n")]
    assert not odd, f"a line has {odd!r}"


def _state_change_log() -> str:
    at = datetime(2026, 1, 31, 2, tzinfo=UTC)
    messages = (
        "INFO [Broker id=1] Leader orders-3 with topic id Some(5tV1rJgQTZyK9TkZkJ0fCw) starts at "
        "leader epoch 7 from offset 120 with partition epoch 12, high watermark 120, ISR [1,2,3], "
        "adding replicas [] and removing replicas []. Previous leader Some(2) and previous leader "
        "epoch was 6. (state.change.logger)",
        "INFO [Broker id=1] Follower orders-4 starts at leader epoch 3 from offset 0 with "
        "partition epoch 5 and high watermark 0. Current leader is 2. Previous leader Some(3) and "
        "previous leader epoch was 2. (state.change.logger)",
        "INFO [Broker id=2] Transitioning 1 partition(s) to local followers. (state.change.logger)",
        "TRACE [Controller id=1 epoch=4] Changed partition orders-0 from OnlinePartition to "
        "OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=9, isr=List(1, 2), "
        "zkVersion=20) (state.change.logger)",
        "ERROR [Broker id=3] Ignoring StopReplica request (delete=true) from controller 1 with "
        "correlation id 5 epoch 4 for partition orders-5 (state.change.logger)\n"
        "java.lang.IllegalStateException: no\n\tat kafka.server.X(Y.scala:1)",
        "INFO [Broker id=1] Stopped fetchers as part of become-leader for 2 partitions "
        "(state.change.logger)",
    )
    lines = []
    for number in range(24):
        stamp = at + timedelta(milliseconds=137 * number)
        text = messages[number % len(messages)]
        lines.append(f"[{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03}] {text}")
    return "\n".join(lines) + "\n"


def own_files(folder: Path) -> Play:
    """Small files of trimtab's own: the autopilot's, the audit, what names and runs are known."""
    from core.autopilot import switch
    from core.autopilot.log import DecisionLog, build_history
    from core.cli.autopilot.autopilot import entry_line
    from core.cluster.known_names import check_name
    from core.run import audit
    from core.run.reporting.runs import list_runs

    home = Path(os.environ["TRIMTAB_HOME"])
    _unpack("home.tar.xz", home)
    data = home / "data"
    of_autopilot = data / "autopilot" / CLUSTER_ID
    names = data / "known-names.json"
    names.write_text(json.dumps({"prod": CLUSTER_ID}))
    paths = (
        *(of_autopilot / "switch.json", of_autopilot / "decisions.jsonl", data / "audit.jsonl"),
        *(data / "runs" / CLUSTER_ID / "ended.json", names),
    )
    good = {path: path.read_bytes() for path in paths}

    def play(dice: random.Random) -> None:
        path = dice.choice(paths)
        if path.suffix == ".jsonl":
            lines = good[path].decode().splitlines()
            at = dice.randrange(len(lines))
            changed = odd_json(json.loads(lines[at]), dice)
            content = "\n".join(lines[:at]).encode() + b"\n" + changed + b"\n"
            path.write_bytes(content if dice.random() < 0.7 else damaged(good[path], dice))
        else:
            path.write_bytes(_odd_document(json.loads(good[path]), dice))
        try:
            list(switch.read_all())
            entries = list(DecisionLog(CLUSTER_ID).entries())
            build_history(entries)
            for entry in entries:
                entry_line(entry)
            list_runs(CLUSTER_ID)
            check_name("prod", CLUSTER_ID)
            audit.verify(audit.read())
            switch.read(CLUSTER_ID)
        finally:
            path.write_bytes(good[path])

    return play


KINDS: Mapping[str, Callable[[Path], Play]] = {
    "properties": properties,
    "config": config,
    "plans": plans,
    "cluster-json": cluster_json,
    "cluster-arrow": cluster_arrow,
    "manifests": manifests,
    "journals": journals,
    "timelines": timelines,
    "logs": logs,
    "own-files": own_files,
}
