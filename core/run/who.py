"""Who asks, and from where: what journals and the audit keep of a person."""

from __future__ import annotations

import os
import pwd
import socket


def asker() -> dict[str, str]:
    """Return the user, this host, and from where the user came to it."""
    return {"who": user(), "host": socket.gethostname(), "from": origin()}


def user() -> str:
    """Return the name that the system knows this process's user by; behind sudo, whose it was."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", name)
    return name if behind == name else f"{behind} as {name}"


def origin() -> str:
    """Return `ssh ADDRESS`, else the terminal, else ""."""
    ssh = (os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_CLIENT") or "").split()
    if ssh:
        return f"ssh {ssh[0]}"
    for stream in (0, 1, 2):
        if os.isatty(stream):
            return os.ttyname(stream)
    return ""
