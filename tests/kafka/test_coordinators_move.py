"""Groups are looked at while their coordinators move, and the process that looks lives on."""

from __future__ import annotations

import subprocess
import sys
import threading

from on_kafka import client_with

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import consume

# In a process of its own: librdkafka's way to ask for offsets ends the whole process.
PROGRAM = '''
import sys, time
from core.cluster.connect import Address, connect
from core.errors import UnreachableError

client = connect(Address(sys.argv[1])).client

def another_first(row):
    """Return the replicas, one that is in sync and does not lead first: it leads once elected."""
    first = next((b for b in row.isr if b != row.leader), row.leader)
    return (first, *(b for b in row.replicas if b != first))

def group(besides=None):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            (found,) = client.describe_groups("moved-group")
        except (UnreachableError, ValueError):  # its coordinator is still loading
            continue
        if found.committed and found.coordinator != besides:
            return found
        time.sleep(0.1)
        if besides is not None:  # its new order may not have been known yet
            client.elect_leaders([r.tp for r in offsets])
    raise SystemExit("no offsets are known, or it has not moved")

first = group()
state = client.describe_cluster()
rows = [state.row(i) for i in range(state.partition_count)]
offsets = [row for row in rows if row.tp.topic == "__consumer_offsets"]
client.alter_reassignments({r.tp: another_first(r) for r in offsets})
client.elect_leaders([r.tp for r in offsets])
looked = [group() for _ in range(5)]  # while it moves
looked.append(group(besides=first.coordinator))
client.close()
print(*(found.committed == first.committed for found in looked))
'''


def test_committed_offsets_are_known_during_and_after_a_move_of_the_coordinator(
    sandbox: Sandbox,
) -> None:
    settings = ConnectionSettings(sandbox.bootstrap)
    stop = threading.Event()
    given = (settings, "moved-group", ["moved-topic"], stop)
    reader = threading.Thread(target=consume, args=given)
    with client_with(sandbox, {"moved-topic": [(1, 2)]}, 1_000):
        reader.start()
        try:
            ended = subprocess.run(
                [sys.executable, "-c", PROGRAM, sandbox.bootstrap],
                capture_output=True,
                text=True,
                timeout=120,
            )
        finally:
            stop.set()
            reader.join()
    assert (ended.returncode, ended.stdout.split()) == (0, ["True"] * 6), ended.stderr
