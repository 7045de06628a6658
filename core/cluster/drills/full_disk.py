"""Makes a broker see its log dir as full, without taking space.

Every five seconds a broker writes a small file into each log dir, and takes the log dir offline
when it cannot (Kafka's CheckpointFile). Here that file becomes a way to /dev/full, which answers
each write with `No space left on device`.
"""

from __future__ import annotations

import time
from pathlib import Path

from core.cluster.connect import Address, connect
from core.cluster.sandbox.nodes import Node, Role
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import TrimtabError, UsageError

MAX_NOTICE_SECONDS = 30.0
"""How long a broker may take to notice that its disk is full; it looks every five seconds."""
DEV_FULL = Path("/dev/full")
NO_DEV_FULL = "this system has no /dev/full, by which a disk is filled without taking space"
CHECKPOINT = "replication-offset-checkpoint"
WRITTEN = f"{CHECKPOINT}.tmp"
"""What the broker writes, before it renames it."""


def is_supported() -> bool:
    """Return whether this system has what it takes."""
    return DEV_FULL.is_char_device()


def log_dir_to_fill(node: Node) -> Path:
    """Return the log dir that may be filled: the last one; raises UsageError for a controller.

    The first holds the cluster's metadata too: without it a broker halts as a whole.
    """
    if node.role is not Role.BROKER:
        raise UsageError(f"{node.words.capitalize()} holds no partitions.")
    return node.log_dirs[-1]


def fill_disk(node: Node) -> None:
    """Fill a broker's log dir; the broker notices within five seconds.

    One that was just writing its file may rename ours away: then `is_full` is False.
    """
    way = node.folder / ".full"
    way.unlink(missing_ok=True)
    way.symlink_to(DEV_FULL)
    way.replace(log_dir_to_fill(node) / WRITTEN)


def is_full(node: Node) -> bool:
    return (log_dir_to_fill(node) / WRITTEN).is_symlink()


def empty_disk(node: Node) -> None:
    """Make room again; a broker takes a log dir back as it starts."""
    for name in (WRITTEN, CHECKPOINT):
        path = log_dir_to_fill(node) / name
        if path.is_symlink():
            path.unlink()


def empty_and_restart(sandbox: Sandbox, node: Node) -> bool:
    """Make room in a broker's log dir, and start the broker anew, which takes it back."""
    if not is_full(node):
        return False
    empty_disk(node)
    sandbox.stop(node.id)
    sandbox.start(node.id)
    return True


def fill_and_wait(sandbox: Sandbox, node: Node) -> bool:
    """Fill a broker's log dir, and return once the broker says that it is offline."""
    if is_full(node):
        return False
    if not is_supported():
        raise TrimtabError(f"No disk can be filled here: {NO_DEV_FULL}.")
    if sandbox.process(node.id) is None:
        raise UsageError(f"Broker {node.id} is not up.", next="Start it first.")
    path = str(log_dir_to_fill(node))
    deadline = time.monotonic() + MAX_NOTICE_SECONDS
    with connect(Address(node.admin_address, sandbox.command_config)) as connection:
        while True:
            if not is_full(node):  # not yet, or it was just being written
                fill_disk(node)
            (logs,) = connection.client.describe_log_dirs([node.id])
            if any(log_dir.path == path and log_dir.error for log_dir in logs.log_dirs):
                return True
            if time.monotonic() > deadline:
                empty_disk(node)
                raise TrimtabError(
                    f"Broker {node.id} has not noticed within {MAX_NOTICE_SECONDS:.0f} s that "
                    f"{path} is full; it has room again.",
                    next=f"Its log: {node.server_log}",
                )
            connection.clock.sleep(0.2)
