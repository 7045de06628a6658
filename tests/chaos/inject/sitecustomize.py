"""Strikes at kinds of journal records, as it was ordered; Python imports it as it starts.

TRIMTAB_CHAOS is a folder: `orders.json` lists what is to happen and at which record, `struck` gets
the number of each order that was carried out. While there is a file `down`, nothing happens.
"""

import json
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime


def _arm(folder: str) -> None:
    from core.run.journal.journal import Journal

    write, refused = Journal.write, []
    orders, struck, down = (os.path.join(folder, n) for n in ("orders.json", "struck", "down"))  # noqa: PTH118

    def due(journal, when, kind):
        with open(orders) as file:  # noqa: PTH123
            wanted = [o for o in json.load(file) if (o["when"], o["kind"]) == (when, kind)]
        wanted = [o for o in wanted if o["pids"] or o["does"] != "kill nodes"]
        if not wanted or os.path.exists(down):  # noqa: PTH110
            return []
        done = set()
        with suppress(FileNotFoundError), open(struck) as file:  # noqa: PTH123
            done = set(file.read().split())
        query = "SELECT COUNT(*) FROM records WHERE kind = ?"
        (there,) = journal._database.execute(query, (kind,)).fetchone()
        now = there + (when == "before")
        return [o for o in wanted if o["id"] not in done and now >= o["nth"]]

    def strike(journal, order):
        to = os.open(struck, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(to, f"{order['id']}\n".encode())
        os.close(to)
        match order["does"]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill nodes":
                os.close(os.open(down, os.O_CREAT))
                for pid in order["pids"]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case "be refused":
                refused.append(True)
            case "crash":
                raise RuntimeError("chaos")
            case asked:
                journal.ask(datetime.now(UTC), asked, {"who": "chaos", "host": "here"})

    def write_and_strike(self, at, what, payload):
        for order in due(self, "before", what.value):
            strike(self, order)
        record = write(self, at, what, payload)
        for order in due(self, "after", what.value):
            strike(self, order)
        return record

    Journal.write = write_and_strike
    _refuse(refused)


def _refuse(refused) -> None:
    """Let the next changes of brokers' configs be answered as by a broker that refuses them."""
    from core.cluster.configs import ResourceKind
    from core.cluster.kafka.client import KafkaClient
    from core.cluster.kafka_errors import Fault

    alter = KafkaClient.alter_configs

    def alter_or_refuse(self, changes):
        brokers = {c.resource for c in changes if c.resource.kind is ResourceKind.BROKER}
        if not (refused and brokers):
            return alter(self, changes)
        refused.clear()
        rest = [change for change in changes if change.resource not in brokers]
        faults = dict.fromkeys(brokers, Fault("POLICY_VIOLATION", "chaos"))
        return faults | (alter(self, rest) if rest else {})

    KafkaClient.alter_configs = alter_or_refuse


if "TRIMTAB_CHAOS" in os.environ:
    _arm(os.environ["TRIMTAB_CHAOS"])
