"""`trimtab doctor`: what is missing here, each with its remedy. Exit 6 when something is."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core import paths
from core.cli.cluster.doctor_rights import show_rights
from core.cli.common.context import Context
from core.cli.common.every_cluster import (
    ClusterAnswer,
    all_option,
    ask_every_cluster,
    sections,
    write_answers,
)
from core.cli.common.options import Command, answer_options
from core.cli.common.output import Answer
from core.cluster.access.rights import USES
from core.cluster.connect import (
    Address,
    find_certificates,
    find_unreachable,
    ignored_properties,
    nearest_property,
)
from core.cluster.known_names import name_and_id
from core.errors import AccessDeniedError, ExitCode, TrimtabError
from core.text.terminal import printable
from core.units import format_bytes

if TYPE_CHECKING:
    from core.cluster.access.hidden_topics import HiddenTopics
    from core.cluster.configs import ConfigValue, Resource
    from core.cluster.kafka_errors import Fault
    from core.cluster.log_dirs import BrokerLogs
    from core.cluster.state import ClusterState

MIN_FREE_BYTES = 2_000_000_000
EXPIRY_DAYS = 30
EVERYTHING = "the dashboard, show, plans, load, the timeline and runs"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `remedy` is empty when it is fine, `needed_for` says what lacks it."""

    name: str
    found: str
    remedy: str = ""
    needed_for: str = ""

    @property
    def fine(self) -> bool:
        return not self.remedy

    def to_json(self) -> dict[str, Any]:
        unfit = {"remedy": self.remedy or None, "needed_for": self.needed_for or None}
        return {"name": self.name, "fine": self.fine, "found": self.found, **unfit}


@click.command(cls=Command)
@click.option(
    "--acls",
    "use",
    type=click.Choice(tuple(USES)),
    help="Show the rights that this use takes, which of them exist, and the kafka-acls commands for"
    " the others.",
)
@all_option
@answer_options
@click.pass_obj
def doctor(context: Context, use: str | None, every: bool, answer: Answer) -> int:
    """Check this machine, and with -b the cluster, for what trimtab needs.

    Prints a remedy for each problem. Exit code 6 when there is one.
    """
    if use is not None:
        return show_rights(context, use, answer, every=every)
    if every:
        of_clusters = ask_every_cluster(context, lambda ctx: tuple(cluster(ctx)))
        answers = [ClusterAnswer(None, tuple(machine())), *of_clusters]
        return write_answers(
            answer, answers, document, lambda: sections(answers, _text), fine=_all_fine
        )
    findings = tuple(examine(context))
    answer.write(lambda: document(findings), lambda: _text(findings))
    return ExitCode.DONE if _all_fine(findings) else ExitCode.NO


def _all_fine(findings: Sequence[Finding]) -> bool:
    return all(finding.fine for finding in findings)


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what `--json` prints of findings."""
    return {"fine": _all_fine(findings), "findings": [finding.to_json() for finding in findings]}


def _text(findings: Sequence[Finding]) -> str:
    width = max(len(finding.name) for finding in findings)
    return "".join(_lines(finding, width) for finding in findings)


def _lines(finding: Finding, width: int) -> str:
    mark = "✓" if finding.fine else "✗"
    line = f"{mark} {finding.name:<{width}}  {printable(finding.found)}\n"
    if finding.fine:
        return line
    what = f" (needed for {finding.needed_for})" if finding.needed_for else ""
    return f"{line}  {'':<{width}}  → {printable(finding.remedy)}{what}\n"


def examine(context: Context) -> Iterator[Finding]:
    """Yield every finding, this machine's first, then the cluster's when one is named."""
    yield from machine()
    if context.target.address is not None:
        yield from cluster(context)


def machine() -> Iterator[Finding]:
    """Look at this machine alone."""
    yield python()
    yield from libraries()
    yield java()
    yield spark()
    yield terminal()
    yield clock()
    yield data_folder(paths.data_dir())
    yield logout()


def python() -> Finding:
    python_version = platform.python_version()
    fine = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", python_version, "" if fine else "Use Python 3.11 to 3.13.")


def libraries() -> Iterator[Finding]:
    for name in ("confluent-kafka", "kafka-python", "textual", "pyarrow"):
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", "Install trimtab again, with its dependencies.")


def java() -> Finding:
    from core.java import find_java

    try:
        jvm = find_java()
    except TrimtabError as error:
        return Finding("java", error.title, error.next, "real brokers here, and Spark")
    return Finding("java", f"{jvm.version} at {jvm.path}")


def spark() -> Finding:
    from core.pipeline.session import REMEDY, missing_part

    if missing := missing_part():
        return Finding(missing, "not installed", REMEDY, "load snapshots")
    return Finding("pyspark", version("pyspark"))


def terminal() -> Finding:
    name = os.environ.get("TERM", "")
    if name == "dumb":
        return Finding("terminal", "TERM=dumb", "Set TERM, e.g. to xterm-256color.", "dashboard")
    colours = (
        "truecolor" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256 or less"
    )
    return Finding("terminal", f"TERM={name or 'unset'}, {colours}")


def clock() -> Finding:
    """Ages, rates and audit times are only as good as this machine's clock."""
    tool = shutil.which("timedatectl")
    if tool is None:
        return Finding("clock", "no timedatectl here that tells whether it is synchronised")
    answer = subprocess.run(
        [tool, "show", "--property=NTPSynchronized", "--value"],
        capture_output=True,
        text=True,
        check=False,
        timeout=5,
    ).stdout.strip()
    if answer == "no":
        return Finding("clock", "not synchronised", "timedatectl set-ntp true", "ages and audit")
    return Finding("clock", "synchronised" if answer == "yes" else "timedatectl does not tell")


def data_folder(folder: Path) -> Finding:
    """Journals must be written before a cluster is changed, so their folder must be sound."""
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    wrong = "" if os.access(existing, os.W_OK) else f"{folder} cannot be written"
    wrong = wrong if existing.is_dir() else f"{existing} is not a folder"
    if wrong:
        return Finding("data folder", wrong, "Set TRIMTAB_HOME elsewhere.", "runs")
    free = shutil.disk_usage(existing).free
    summary = f"{folder}, {format_bytes(free)} free"
    if free < MIN_FREE_BYTES:
        return Finding("data folder", summary, "Free some space there.", "samples and journals")
    return Finding("data folder", summary)


def logout() -> Finding:
    """Where the login manager kills user processes at logout, a run would die with the session."""
    from core.run.run_process import logout_policy

    policy = logout_policy()
    if policy.ends_runs:
        return Finding(
            "logout", "kills your processes", policy.remedy, "runs that go on when you log out"
        )
    return Finding("logout", "leaves your runs running")


def cluster(context: Context) -> Iterator[Finding]:
    """Look at the named cluster: reachability, rights, clocks."""
    from core.cluster.configs import Resource
    from core.cluster.observer import TOPIC_CONFIGS, find_hidden_topics

    try:
        yield from properties(context.require_address())
        with context.connected() as connection:
            client = connection.client
            state = client.describe_cluster()
            alive = state.alive_ids
            yield Finding(
                "cluster",
                f"{name_and_id(state.cluster_id)}, {len(alive)} of {len(state.brokers)} brokers up",
            )
            if not connection.address.is_simulated:
                yield from reachability(connection.address, state)
                yield from certificates(connection.address, state)
            topics = [Resource.topic(topic.name) for topic in state.topics]
            loss = "runs, the autopilot, and deleting topics or adding partitions"
            remedy = "Allow DESCRIBE on the cluster."
            yield _right_finding("right to see moves", state.moves_unknown, remedy, loss)
            logs = client.describe_log_dirs(alive)
            yield from rights(logs, lambda: client.describe_configs(topics, TOPIC_CONFIGS))
            yield hidden_topics(find_hidden_topics(client.fetch_denied_topics, state, logs))
            yield from probes(state)
    except AccessDeniedError as error:
        yield Finding("cluster", error.title, error.next, EVERYTHING)
    except TrimtabError as error:
        yield Finding("cluster", error.title, error.next or "Look at -b and --command-config.")


def properties(address: Address) -> Iterator[Finding]:
    """Name what of --command-config means nothing here; raises DocumentError."""
    if address.command_config is None or address.is_simulated:
        return
    ignored = ignored_properties(address)
    summary = f"{', '.join(ignored)} mean nothing here" if ignored else "all are heeded"
    meant = {name: nearest_property(name) for name in ignored}
    remedy = " ".join(f"Write {right} for {name}." for name, right in meant.items() if right)
    yield Finding("client properties", summary, remedy, "what they say" if remedy else "")


def reachability(address: Address, state: ClusterState) -> Iterator[Finding]:
    """Name brokers that are up, and whose advertised addresses are not reached from here."""
    places = {f"{b.host}:{b.port}": b.id for b in state.brokers if b.alive and b.host}
    unreached = find_unreachable(address, list(places))
    if not unreached:
        yield Finding("advertised addresses", "all are reached from here")
    for place, what in sorted(unreached.items(), key=lambda item: places[item[0]]):
        yield Finding(
            "advertised addresses",
            f"broker {places[place]} advertises {place}, which {what}",
            "Run trimtab where it is reached, or have advertised.listeners name what is.",
            "load, moves and throttles of that broker",
        )


def certificates(address: Address, state: ClusterState) -> Iterator[Finding]:
    """Say which certificate ends first, and name those that end within EXPIRY_DAYS."""
    places = [f"{broker.host}:{broker.port}" for broker in state.brokers if broker.alive]
    certs = sorted(find_certificates(address, places), key=lambda cert: cert.expires_at)
    if not certs:
        return
    now = datetime.now(UTC)
    ending = [cert for cert in certs if cert.expires_at < now + timedelta(days=EXPIRY_DAYS)]
    if not ending:
        first = certs[0]
        what = f"none ends before {first.expires_at:%Y-%m-%d} ({first.owner})"
        yield Finding("certificates", what)
    for certificate in ending:
        verb = "ended" if certificate.expires_at < now else "ends"
        yield Finding(
            "certificates",
            f"that of {certificate.owner} {verb} on {certificate.expires_at:%Y-%m-%d %H:%M} UTC",
            "Renew it before it ends.",
            "any connection by TLS",
        )


def probes(state: ClusterState) -> Iterator[Finding]:
    """Look for topics that probes of dead runs have left."""
    from core.run.external.leftovers import REMEDY, find_left_probes
    from core.run.reporting.runs import with_throttles

    for left in find_left_probes(state, with_throttles(state.cluster_id)):
        yield Finding("probe", left, REMEDY, "a clean cluster")


def rights(
    logs: Sequence[BrokerLogs],
    configs: Callable[[], Mapping[Resource, Mapping[str, ConfigValue] | Fault]],
) -> Iterator[Finding]:
    """Say which rights reading lacks beside the cluster's description; a run tries altering."""
    from core.cluster.kafka_errors import Fault

    loss = "sizes, bytes in and how far moves are"
    silent = next((log for log in logs if log.error), None)
    if silent is None:
        yield Finding("right to see log dirs", "yes")
    elif silent.error and "AUTHORIZATION" in silent.error:
        yield Finding("right to see log dirs", silent.error, "Allow DESCRIBE on the cluster.", loss)
    else:
        summary = f"broker {silent.broker} does not say: {silent.error}"
        yield Finding("right to see log dirs", summary, "Check that broker.", loss)
    for log in logs:
        for log_dir in log.log_dirs:
            if log_dir.error:
                yield Finding(
                    "log dirs",
                    f"{log_dir.path} of broker {log.broker} fails: {log_dir.error}",
                    "Repair the disk, then restart the broker: its replicas are out of sync.",
                    "what is on it",
                )
    try:
        denied = [
            f"{resource.name}: {answer}"
            for resource, answer in configs().items()
            if isinstance(answer, Fault) and answer.is_denial
        ]
    except AccessDeniedError as error:
        denied = [error.title]
    remedy = "Allow DESCRIBE_CONFIGS on all topics."
    loss = "runs, and checks of min.insync.replicas and retention"
    yield _right_finding("right to see topics' configs", denied[0] if denied else "", remedy, loss)


def hidden_topics(hidden: HiddenTopics) -> Finding:
    """Say whether there are topics that metadata does not name to this user."""
    silent = "Check that these brokers are up." if hidden.count is None else ""
    return Finding(
        "hidden topics",
        hidden.sentence or "none",
        hidden.remedy or silent,
        "balance, disks and plans as a whole",
    )


def _right_finding(name: str, denial: str, remedy: str, loss: str) -> Finding:
    return Finding(name, denial, remedy, loss) if denial else Finding(name, "yes")
