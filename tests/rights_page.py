"""docs/rights.md: the ACLs that each use of a cluster takes, of the table that doctor asks by."""

from __future__ import annotations

import sys

from core.cluster.access.rights import USES, acl_commands

HEAD = """# Rights

Which ACLs each use of a cluster takes. `trimtab -b … --command-config FILE doctor --acls read`
shows which of them the user of that file has, without trying any (brokers tell it, KIP-430), and
the `kafka-acls` commands for the rest. Made from the code's own table by `make docs`; tests play
commands of each use on real brokers with exactly these rights, moves with throttles among them.

Rights imply others: READ, WRITE, ALTER and DELETE imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS: whoever has the rights of `run` needs of DESCRIBE only that on topics and groups.
Without DESCRIBE on all topics some are hidden: trimtab says so wherever a sum or a plan rests on
them.
"""


def document() -> str:
    """Return the page."""
    read = USES["read"].rights
    table = "| `--acls` | what | takes |\n|---|---|---|\n"
    for name, use in USES.items():
        besides = [right for right in use.rights if name == "read" or right not in read]
        takes = ", ".join(map(str, besides))
        if name != "read":
            takes = f"all of `read`, and {takes}"
        if use.only_on:
            takes += f" (on `{use.only_on}` alone)"
        table += f"| `{name}` | {use.what} | {takes} |\n"
    commands = "\n".join(acl_commands(USES["run"].rights, "User:ops", "kafka-1:9092"))
    return (
        f"{HEAD}\n{table}\n## For a user who carries out plans\n\n```\n{commands}\n```\n\n"
        "Of these, DESCRIBE and DESCRIBE_CONFIGS are enough for one who only looks.\n"
    )


if __name__ == "__main__":
    sys.stdout.write(document())
