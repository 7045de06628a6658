"""What brokers and controllers write into a state-change log, from Kafka 2.0 to 4.x.

The forms are those of kafka.cluster.Partition, kafka.server.ReplicaManager, the metadata cache and
the older controller's PartitionStateMachine, ReplicaStateMachine and ControllerChannelManager.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import Any

from core.watch.statelog.event import Change, LogEventKind, new_tuple

UNKNOWN = Change(LogEventKind.UNKNOWN)
_K = LogEventKind
# Members are looked up slowly, and these for each line.
_LEADER, _FOLLOWER, _ISR, _SKIPPED = _K.LEADER, _K.FOLLOWER, _K.ISR, _K.SKIPPED
_NAME = "[a-zA-Z0-9._-]+"
"""A topic's: Kafka allows no other characters. Spelt out: `\\w` takes longer."""
_TP = rf"(?P<topic>{_NAME})-(?P<partition>[0-9]+)"
_FOR = rf"\bfor (?:the )?(?:topic )?partition (?:being reassigned )?{_TP}\b"


# -- the forms that most lines have, each with an expression of its own ---------------------------

_INT, _IDS, _TOPIC_ID = "-?[0-9]+", r"[0-9, ]*", r"(?:Some\()?([a-zA-Z0-9_-]+)\)?"
_STARTS = re.compile(
    rf"(?:(Leader|Follower) )?({_NAME})-([0-9]+)(?: with topic id {_TOPIC_ID})?"
    rf" starts at [Ll]eader [Ee]poch ([0-9]+) from offset ({_INT})"
    rf"(?:\.? with partition epoch ([0-9]+),?)?(?: (?:and|with))?(?: high watermark {_INT}[,.]?)?"
    rf"(?: ISR \[?([0-9,]*)\]?)?"
    rf"(?:, adding replicas \[[0-9,]*\] and removing replicas \[[0-9,]*\])?"
    rf"(?: Current leader is ({_INT})\.)?"
    rf".*?[Pp]revious (?:leader (?:Some\(([0-9]+)\)|None) and previous )?"
    rf"[Ll]eader [Ee]poch was:? ({_INT})"
)
_SKIPPED_FORM = re.compile(
    rf"Skipped the become-(?:leader|follower) state change for ({_NAME})-([0-9]+)"
    rf" with topic id {_TOPIC_ID}"
    rf"(?:, partition registration PartitionRegistration\(replicas=\[({_IDS})\],"
    rf" (?:directories=\[[^\]]*\], )?isr=\[({_IDS})\], (?:[a-zA-Z]+=\[[^\]]*\], )*leader=({_INT}),"
    rf" leaderRecoveryState=[A-Z_]+, leaderEpoch=([0-9]+), partitionEpoch=([0-9]+)\))?(.*)"
)


def _parse_start(text: str) -> Change | None:
    match = _STARTS.match(text)
    if match is None:
        return None
    role, topic, partition, topic_id, epoch, offset, version, isr, now, before, until = (
        match.groups()
    )
    return new_tuple(
        Change,
        (
            _FOLLOWER if role == "Follower" else _LEADER,
            topic,
            int(partition),
            None if now is None else int(now),
            int(epoch),
            None if version is None else int(version),
            None if isr is None else _ids(isr),
            None,
            None if before is None else int(before),
            int(until),
            int(offset),
            topic_id,
            None,
            None,
        ),
    )


def _parse_skipped(text: str) -> Change | None:
    match = _SKIPPED_FORM.match(text)
    if match is None:
        return None
    topic, partition, topic_id, replicas, isr, leader, epoch, version, rest = match.groups()
    if "storage error" in rest:
        return Change(LogEventKind.FAILED, topic, int(partition), topic_id=topic_id)
    kind = _SKIPPED if "at a newer partition epoch" in rest else _ISR
    if leader is None:
        return _with_bracket_values(rest, Change(kind, topic, int(partition), topic_id=topic_id))
    return new_tuple(
        Change,
        (
            kind,
            topic,
            int(partition),
            int(leader),
            int(epoch),
            int(version),
            _ids(isr),
            _ids(replicas),
            None,
            None,
            None,
            topic_id,
            None,
            None,
        ),
    )


# -- all others: the first that fits, by the message's first word ----------------------------------


_PATTERNS: tuple[tuple[LogEventKind, str], ...] = (
    (_K.FAILED, rf"A ZooKeeper client exception .*{_FOR}"),
    (_K.METADATA, r"Add (?P<count>\d+) partitions and deleted "),
    (_K.METADATA, rf"Cached leader info .*? for partition {_TP} in response"),
    (
        _K.CREATED,
        rf"Changed partition {_TP} state from \w+ to NewPartition"
        r" with assigned replicas (?P<replicas>[\d,]*)",
    ),
    (_K.OFFLINE, rf"Changed partition {_TP} state from \w+ to OfflinePartition"),
    (_K.DELETED, rf"Changed partition {_TP} state from \w+ to NonExistentPartition"),
    (_K.ELECTED, rf"Changed partition {_TP} from \w+ to OnlinePartition with state "),
    (
        _K.OFFLINE,
        rf"Changed state of replica (?P<replica>\d+) for partition {_TP} from \w+"
        r" to OfflineReplica",
    ),
    (_K.REPLICA, rf"Changed state of replica (?P<replica>\d+) for partition {_TP} from \w+ to \w+"),
    (_K.REQUEST, rf"Completed LeaderAndIsr request .*{_FOR}"),
    (
        _K.FAILED,
        r"Controller \d+ epoch \d+ (?:failed to change state|initiated state change of replica"
        rf" (?P<replica>\d+)) for partition {_TP} from ",
    ),
    (_K.CREATED, rf"Creating new partition {_TP} with topic id (?P<topic_id>[\w-]+)"),
    (_K.DELETED, rf"Deleted partition {_TP} from metadata cache"),
    (_K.DELETED, r"Deleting (?P<count>\d+) partition\(s\)"),
    (_K.FAILED, rf"Error while processing LeaderAndIsr request .*{_FOR}"),
    (_K.FAILED, r"Error while processing LeaderAndIsr request "),
    (_K.ISR, r"Expanding ISR from [\d,]* to (?P<isr>[\d,]+)"),
    (_K.CREATED, rf"Expected partition {_TP} with topic id (?P<topic_id>[\w-]+)"),
    (_K.FAILED, rf"Failed to send LeaderAndIsr request .*{_FOR}"),
    (_K.DELETED, rf"Finished handling stop replica \(delete=true\) for partition {_TP}"),
    (_K.REQUEST, rf"Finished handling stop replica .* for partition {_TP}"),
    (_K.REQUEST, r"Finished LeaderAndIsr request .* for (?P<count>\d+) partitions"),
    (_K.REQUEST, rf"Handling stop replica .* for partition {_TP}"),
    (_K.REQUEST, rf"Handling LeaderAndIsr request .*{_FOR}"),
    (_K.REQUEST, r"Handling (?:LeaderAndIsr|StopReplica) request .* for (?P<count>\d+) partitions"),
    (
        _K.ISR,
        r"ISR updated to \[?(?P<isr>[\d,]+)\]? .*?(?:version|zkVersion) updated to"
        r" \[?(?P<partition_epoch>\d+)",
    ),
    (_K.OFFLINE, rf"Ignoring .*{_FOR} (?:as|due to) .*(?:offline log|storage)"),
    (_K.SKIPPED, rf"Ignoring .*{_FOR}"),
    (_K.SKIPPED, r"Ignoring (?:LeaderAndIsr|StopReplica) request from controller "),
    (_K.OFFLINE, rf"Mark replicas {_TP} on broker (?P<replica>\d+) as offline"),
    (_K.OFFLINE, r"Mark replicas \S+ on broker (?P<replica>\d+) as offline"),
    (
        _K.ISR,
        rf"Partition {_TP} state changed to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),"
        r"LeaderEpoch:(?P<leader_epoch>-?\d+),(?:LeaderRecoveryState:\w+,)?"
        r"(?:ZkVersion|PartitionEpoch):(?P<partition_epoch>\d+).* replica (?P<replica>\d+) ",
    ),
    (
        _K.FAILED,
        rf"Received LeaderAndIsrRequest .*{_FOR}.* new leader (?P<leader>-?\d+) is unavailable",
    ),
    (_K.REQUEST, rf"Received (?:LeaderAndIsr|StopReplica) request .*{_FOR}"),
    (_K.REQUEST, r"Received (?:LeaderAndIsr|StopReplica) request .*correlation id"),
    (_K.REQUEST, r"Received response "),
    (_K.SKIPPED, r"Received (?:update metadata|stop replica) request .* old controller"),
    (_K.FAILED, r"Received error "),
    (_K.REQUEST, rf"Sending .*request .* for partition {_TP}$"),
    (
        _K.REQUEST,
        r"Sending (?:a )?(?:LeaderAndIsr|UpdateMetadata|StopReplica|stop replica) request ",
    ),
    (_K.ASSIGNED, rf"Sent LeaderAndIsr request .*{_FOR}"),
    (_K.ISR, r"Shrinking ISR from [\d,]* to (?P<isr>[\d,]+)"),
    (_K.OFFLINE, rf"Skipped the become-.*{_FOR}.* is offline due to "),
    (_K.SKIPPED, rf"Skipped the .*{_FOR}"),
    (_K.FETCHERS, rf"Started fetcher .*{_FOR} with leader .*?(?P<leader>\d+)"),
    (_K.FETCHERS, r"Started fetchers .* for (?P<count>\d+) partitions"),
    (_K.FETCHERS, rf"Stopped fetchers .*{_FOR}"),
    (_K.FETCHERS, r"Stopped fetchers .* for (?P<count>\d+) partitions"),
    (_K.METADATA, rf"The topic partition {_TP} was marked as RECOVERING"),
    (_K.FAILED, rf"Topic I[Dd] in memory: .*{_FOR} "),
    (_K.FETCHERS, r"Transitioning (?P<count>\d+) partition\(s\) to local (?:leaders|followers)"),
    (_K.FETCHERS, rf"Truncated logs .*{_FOR}"),
    (_K.OFFLINE, rf"Unable to [\w ]+ {_TP} .*(?:offline log|storage error)"),
    (_K.FAILED, rf"Unable to [\w ]+ {_TP} "),
    (_K.METADATA, rf"Updating (?:log|PartitionFetchState) for {_TP} to "),
    (_K.REQUEST, r"While handling full LeaderAndIsr request .* stray"),
)


_FORMS: defaultdict[str, list[tuple[re.Pattern[str], LogEventKind]]] = defaultdict(list)
for _kind, _pattern in _PATTERNS:
    _FORMS[_pattern.partition(" ")[0]].append((re.compile(_pattern), _kind))

_NUMBERS = ("partition", "leader", "leader_epoch", "partition_epoch", "replica", "partition_count")
_LISTS = ("isr", "replicas")


def parse_message(text: str) -> Change:
    """Return what a message says; UNKNOWN for a form that is not known, or one that is damaged."""
    try:
        if text.startswith(("Follower ", "Leader ")):
            change = _parse_start(text)
        else:
            change = _parse_skipped(text) if text.startswith("Skipped ") else None
        if change is not None:
            return change
        for pattern, kind in _FORMS.get(text.partition(" ")[0], ()):
            if (match := pattern.match(text)) is not None:
                return _with_bracket_values(text, _change_from_match(kind, match))
        # Until 2.7 a new leader said so in server.log, with the partition in front.
        return _parse_start(text) or UNKNOWN
    except ValueError:  # letters where a form has a number
        return UNKNOWN


def _change_from_match(kind: LogEventKind, match: re.Match[str]) -> Change:
    # Groups are named as the fields are.
    fields: dict[str, Any] = {k: v for k, v in match.groupdict().items() if v is not None}
    if "count" in fields:
        fields["partition_count"] = fields.pop("count")
    for name in _NUMBERS:
        if name in fields:
            fields[name] = int(fields[name])
    for name in _LISTS:
        if name in fields:
            fields[name] = _ids(fields[name])
    return Change(kind, **fields)


# -- values in brackets: LeaderAndIsr(…), PartitionState(…), PartitionRegistration(…) --------------

_VALUE = re.compile(
    r"\b(topicName|partitionIndex|leader|leaderEpoch|isr|isrWithBrokerEpoch|zkVersion"
    r"|partitionEpoch|replicas)="
    r"('[a-zA-Z0-9._-]*'|\[[^\]]*\]|(?:List|Vector)?\((?:[^()]|\([^)]*\))*\)|-?\d+(?:,\d+)*)"
)
_BRACKETED = ("LeaderAndIsr(", "PartitionState(", "PartitionRegistration(")
_MEMBER = re.compile(r"brokerId=(\d+)")


def _with_bracket_values(text: str, change: Change) -> Change:
    """Return a change with what the brackets in its message say, where it is not said yet."""
    if not any(name in text for name in _BRACKETED):
        return change
    values: dict[str, str] = dict(reversed(_VALUE.findall(text)))

    def number(name: str) -> int | None:
        value = values.get(name, "")
        return int(value) if value.removeprefix("-").isdigit() else None

    partition_epoch = number("partitionEpoch")
    members = values.get("isrWithBrokerEpoch")
    isr = _ids(",".join(_MEMBER.findall(members))) if members else _inside(values.get("isr"))
    named = values.get("topicName", "").strip("'")
    return change._replace(
        topic=change.topic or named or None,
        partition=number("partitionIndex") if change.partition is None else change.partition,
        leader=number("leader"),
        leader_epoch=number("leaderEpoch"),
        partition_epoch=number("zkVersion") if partition_epoch is None else partition_epoch,
        isr=isr,
        replicas=change.replicas or _inside(values.get("replicas")),
    )


def _inside(text: str | None) -> tuple[int, ...] | None:
    """Return the ids of `[1, 2]`, `List(1, 2)` or `Vector(1, 2)`."""
    if text is None:
        return None
    return _ids(text.removeprefix("List").removeprefix("Vector").strip("[]()"))


@lru_cache(maxsize=4096)
def _ids(text: str) -> tuple[int, ...]:
    """Return broker ids as written, `1,2,3` or `1, 2, 3`; the same few come again and again."""
    return tuple(int(id) for id in text.split(",") if id.strip())
