"""Which file systems a run's journal cannot be kept on: their locks and fsync cannot be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "beegfs", "gpfs", "9p"),
    )
)


def network_file_system(folder: Path, mounts: Path) -> str | None:
    """Return the kind of network file system that `folder` is on; None for none (or not Linux)."""
    kind = _file_system(folder, mounts)
    return kind if kind in _NETWORK else None


def _file_system(folder: Path, mounts: Path) -> str | None:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    target = folder.resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:
            continue
        mount = Path(fields[4].encode().decode("unicode_escape"))
        if target.is_relative_to(mount) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), tail.split(" ")[0])
    return best[1]
