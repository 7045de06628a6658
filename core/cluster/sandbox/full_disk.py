"""A broker's log dir that is full as far as the broker can tell; no space is taken.

Every five seconds a broker writes a small file into each log dir, and takes the log dir offline
when it cannot (Kafka's CheckpointFile). Here that file becomes a way to /dev/full, which answers
each write with `No space left on device`.
"""

from __future__ import annotations

from pathlib import Path

from core.cluster.sandbox.nodes import Node, Role
from core.errors import UsageError

DEV_FULL = Path("/dev/full")
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
        raise UsageError(f"Node {node.id} is a controller: it holds no partitions.")
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
