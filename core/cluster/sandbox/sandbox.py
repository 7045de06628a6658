"""Sandbox: a named cluster of real brokers, from `up` to `down`, in a folder of its own.

Its processes outlive the one that started them; the state file says which they are, and whatever
a crash left behind is found by the properties file on its command line.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core import paths
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox.authority import write_certificates, write_token_key
from core.cluster.sandbox.kafka_jars import KAFKA_VERSION, check_version, fetch_jars
from core.cluster.sandbox.launcher import (
    Launcher,
    create_launcher,
    listens,
    poll_members,
    wait_for_answer,
)
from core.cluster.sandbox.logins import (
    PRINCIPALS,
    ClientLogin,
    Way,
    admin_properties,
    find_logins,
    grant_rights,
    write_logins,
)
from core.cluster.sandbox.nodes import ADMIN, HOST, Node, Role, plan_nodes, write_files
from core.cluster.sandbox.workload_spec import overrides_lease, overrides_path
from core.daemons.lease import is_leased
from core.daemons.process import Process, running_with, spawn
from core.errors import TrimtabError, UsageError
from core.ivy import Report
from core.java import find_java

DEFAULT_NAME = "default"
DEFAULT_BROKERS = (1, 2, 3, 4)
_UP_SECONDS = 90.0
_PORT_TAKEN = "Address already in use"


@dataclass(eq=False)
class Sandbox:
    """A sandbox that is up, or was; made by `up`, found again by `open`."""

    name: str
    folder: Path
    cluster_id: str
    kafka: str
    nodes: tuple[Node, ...]
    _processes: dict[int, Process]
    _launch: Launcher | None = None

    # -- from nothing, and back ----------------------------------------------------------------

    @classmethod
    def up(
        cls,
        name: str = DEFAULT_NAME,
        broker_ids: Sequence[int] = DEFAULT_BROKERS,
        racks: int = 0,
        *,
        controllers: int = 1,
        secured: bool = False,
        kafka: str = KAFKA_VERSION,
        overrides: Mapping[str, str] | None = None,
        replace: bool = False,
        say: Report = lambda text: None,
    ) -> Sandbox:
        """Start these brokers and wait until all of them answer.

        A secured one takes nobody unknown, and has users with different rights.
        What a crash left of a sandbox with this name is cleaned first. Raises UsageError when one
        runs already and `replace` is not set, TrimtabError when Java or the jars are missing or a
        node does not come up.
        """
        _check_arguments(name, broker_ids, controllers)
        check_version(kafka)
        launch = _prepare_launcher(kafka, say)
        folder = paths.sandbox_dir(name)
        with folders.lock_folder(folder):
            if not replace and folders.is_up(folder):
                raise UsageError(
                    f"Sandbox {name!r} is up already.",
                    next=f"Use it, or stop it first: trimtab sandbox down --name {name}",
                )
            for last in (False, False, True):
                folders.remove_unlocked(folder)
                nodes = plan_nodes(
                    folder, broker_ids, racks=racks, controllers=controllers, secured=secured
                )
                sandbox = cls(name, folder, _new_cluster_id(), kafka, nodes, {}, launch)
                try:
                    sandbox._begin(overrides or {}, say)
                except _PortTakenError as error:
                    if last:
                        raise TrimtabError(str(error), next="Try again.") from error
                    continue
                except BaseException:
                    folders.stop_all(folder)
                    raise
                break
        return sandbox

    @classmethod
    def open(cls, name: str = DEFAULT_NAME) -> Sandbox:
        """Return the sandbox with this name; raises UsageError when there is none."""
        folder = paths.sandbox_dir(name)
        state = folders.read_state(folder)
        if state is None:
            others = ", ".join(cls.names()) or "none"
            raise UsageError(
                f"There is no sandbox {name!r}; there is: {others}.",
                next="Start one: trimtab sandbox up",
            )
        return cls(name, folder, state.cluster_id, state.kafka, state.nodes, state.processes)

    @classmethod
    def find(cls, bootstrap: str, cluster_id: str) -> Sandbox | None:
        """Return the sandbox of this id that has all of these addresses, by its own files."""
        addresses = {address.replace("localhost:", f"{HOST}:") for address in bootstrap.split(",")}
        for name in cls.names():
            state = folders.read_state(paths.sandbox_dir(name))
            if state is not None and state.cluster_id == cluster_id:
                brokers = (node for node in state.nodes if node.role is Role.BROKER)
                if addresses <= {a for n in brokers for a in (n.address, n.admin_address)}:
                    return cls.open(name)
        return None

    @staticmethod
    def names() -> list[str]:
        """Return the sandboxes there are, running or not."""
        root = paths.sandbox_dir("x").parent
        return sorted(folder.parent.name for folder in root.glob(f"*/{folders.STATE}"))

    @staticmethod
    def remove(name: str) -> bool:
        """Stop what runs under this name and remove its folder; False when nothing was there."""
        return folders.remove_folder(paths.sandbox_dir(name))

    def down(self) -> None:
        """Stop all nodes and remove their data."""
        folders.remove_folder(self.folder)

    # -- single nodes --------------------------------------------------------------------------

    def kill(self, id: int) -> bool:
        """End a node at once (SIGKILL), as a power cut would; False when it does not run."""
        return self._end(id, signal.SIGKILL)

    def stop(self, id: int) -> bool:
        """End a node in order: it hands its leaders over first; False when it does not run."""
        return self._end(id, signal.SIGTERM)

    def start(self, id: int) -> bool:
        """Start a node that was stopped or killed and wait until it answers; False when it runs."""
        node = self.node(id)
        with folders.lock_folder(self.folder):
            if self.process(id) is not None:
                return False
            state = folders.read_state(self.folder)
            if state is None or state.cluster_id != self.cluster_id:
                raise UsageError(f"Sandbox {self.name!r} has gone.", next="Start it anew.")
            process = self._processes[id] = self._launcher().server(node)
            self._write_state(ready=True)
        # Asked itself: the others may not have noticed yet that it was away.
        settings = replace(self.settings, bootstrap=node.admin_address)
        if not wait_for_answer(node, process, _UP_SECONDS, settings):
            raise _start_failure([node])
        return True

    def node(self, id: int) -> Node:
        """Return a node; raises UsageError naming those there are."""
        for node in self.nodes:
            if node.id == id:
                return node
        known = ", ".join(str(node.id) for node in self.nodes)
        raise UsageError(f"Sandbox {self.name!r} has no node {id}.", next=f"It has {known}.")

    def start_workload(self, bytes_per_s: float) -> Process:
        """Start the skewed workload, in place of another; its process ends with the sandbox."""
        mark = folders.workload_log(self.folder)
        overrides_path(mark).unlink(missing_ok=True)
        for process in running_with({str(mark)}):
            process.stop()
        brokers = ",".join(str(id) for id in self.broker_ids)
        module = (sys.executable, "-P", "-m", "core.cluster.sandbox.workload")
        login = () if self.command_config is None else (self.command_config,)
        arguments = (self.admin_bootstrap, brokers, str(bytes_per_s), mark, *login)
        return spawn([*module, *arguments], output=mark)

    @property
    def overrides_path(self) -> Path:
        """Return the file that a workload of this sandbox follows."""
        return overrides_path(folders.workload_log(self.folder))

    @property
    def has_workload(self) -> bool:
        """Return whether a workload runs that does what it is told."""
        return is_leased(overrides_lease(self.overrides_path))

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self._brokers)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self._brokers)

    @property
    def _brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role is Role.BROKER)

    @property
    def logins(self) -> tuple[ClientLogin, ...]:
        """Return every way into a secured sandbox; a plain one wants no login."""
        return find_logins(self.nodes)

    def login(self, name: str, way: Way) -> ClientLogin:
        """Return how one of its principals comes in; it must be a secured one."""
        return next(login for login in self.logins if (login.name, login.way) == (name, way))

    @property
    def admin_bootstrap(self) -> str:
        """Return the addresses at which everything may be done, by `command_config`."""
        return ",".join(node.admin_address for node in self._brokers)

    @property
    def command_config(self) -> Path | None:
        """Return the client properties of who may do everything; a plain one needs none."""
        return admin_properties(self.folder) if self.logins else None

    @property
    def settings(self) -> ConnectionSettings:
        """Return how to reach it as somebody who may do everything."""
        return ConnectionSettings.load(self.admin_bootstrap, self.command_config)

    def process(self, id: int) -> Process | None:
        """Return a node's process when it runs."""
        process = self._processes.get(id)
        return process if process is not None and process.alive else None

    def tool(
        self, class_name: str, *arguments: str, seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own tools (`org.apache.kafka.tools.TopicCommand`) to its end."""
        return self._launcher().tool(self.folder, class_name, *arguments, seconds=seconds)

    def _launcher(self) -> Launcher:
        # Made when first needed: looking, killing and taking down need no Java.
        if self._launch is None:
            self._launch = _prepare_launcher(self.kafka, lambda text: None)
        return self._launch

    def _begin(self, overrides: Mapping[str, str], say: Report) -> None:
        # With it brokers and controllers give out delegation tokens, and take them.
        key = {"delegation.token.secret.key": secrets.token_urlsafe()} if self.logins else {}
        write_files(self.nodes, overrides, key)
        passwords = {}
        if self.logins:
            write_certificates(self.folder, (ADMIN, *PRINCIPALS))
            write_token_key(self.folder)
            passwords = write_logins(self.nodes)
        self._write_state(ready=False)
        kafka = [node for node in self.nodes if node.role is not Role.TOKENS]
        failed = self._launcher().format(kafka, self.cluster_id)
        if failed:
            raise TrimtabError(
                "The brokers' storage could not be formatted.", detail="\n".join(failed)
            )
        say(f"Starting {len(self.broker_ids)} brokers…")
        for node in self.nodes:
            self._processes[node.id] = self._launcher().server(node)
        self._write_state(ready=False)
        self._wait()
        if passwords:
            grant_rights(self.settings, passwords, self.broker_ids)
        self._write_state(ready=True)

    def _wait(self) -> None:
        """Return once all brokers are members; raises TrimtabError with a log's last lines."""
        missing = {node.id: node for node in self.nodes if node.role is not Role.CONTROLLER}
        deadline = time.monotonic() + _UP_SECONDS
        for alive in poll_members(self.settings):
            served = {n.id for n in missing.values() if n.role is Role.TOKENS and listens(n)}
            for id in alive | served:
                missing.pop(id, None)
            if not missing:
                return
            dead = [n for n in self.nodes if n.id in self._processes and not self.process(n.id)]
            ours = [node for node in dead if node.id in missing or node.role is Role.CONTROLLER]
            if ours or time.monotonic() > deadline:
                raise _start_failure(ours or list(missing.values()))
            time.sleep(0.1)

    def _end(self, id: int, number: int) -> bool:
        self.node(id)
        process = self.process(id)
        if process is None or not process.signal(number):
            return False
        if not process.wait(folders.STOP_SECONDS):
            process.stop()
        return True

    def _write_state(self, *, ready: bool) -> None:
        state = folders.SandboxState(
            self.cluster_id, self.kafka, ready, self.nodes, self._processes
        )
        folders.write_state(self.folder, state)


class _PortTakenError(Exception):
    """Somebody else took a port between our look and the node's start."""


def _check_arguments(name: str, broker_ids: Sequence[int], controllers: int) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", name):
        raise UsageError(f"Not a name for a sandbox: {name!r}.", next="Use letters and digits.")
    if not broker_ids or len(set(broker_ids)) != len(broker_ids):
        raise UsageError("A sandbox needs brokers with different ids.")
    if any(id < 0 or id >= 100 for id in broker_ids):
        raise UsageError("Broker ids go from 0 to 99; controllers have those from 100.")
    if controllers not in (1, 3):
        raise UsageError("A sandbox has one controller, or three.")


def _prepare_launcher(kafka: str, say: Report) -> Launcher:
    java = find_java()
    return create_launcher(java, fetch_jars(kafka, java, say), say)


def _new_cluster_id() -> str:
    id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    # A leading dash would look like an option to the storage tool.
    return id if id[0] != "-" else _new_cluster_id()


def _start_failure(nodes: Sequence[Node]) -> Exception:
    node = nodes[0]
    lines = [
        line
        for path in (node.server_log, node.output)
        if path.exists()
        for line in path.read_text(errors="replace").splitlines()[-400:]
    ]
    if any(_PORT_TAKEN in line for line in lines):
        return _PortTakenError(f"Port {node.port} is taken.")
    telling = [line for line in lines if "ERROR" in line or "Exception" in line] or lines
    return TrimtabError(
        f"{node.words.capitalize()} did not come up.",
        detail="\n".join(telling[-5:]),
        next=f"Its whole log: {node.server_log}",
    )
