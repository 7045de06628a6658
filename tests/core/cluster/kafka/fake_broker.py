"""A broker of one topic that speaks Kafka's own protocol, at any age and any speed.

For what real brokers cannot be made to do: to know fewer requests, or to be slow with one answer.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

METADATA, API_VERSIONS, ELECT, REASSIGNMENTS, QUORUM, CLUSTER = 3, 18, 43, 46, 55, 60
KRAFT = {METADATA: 12, API_VERSIONS: 3, ELECT: 2, REASSIGNMENTS: 0, QUORUM: 1, CLUSTER: 1}
"""The newest version of each request that it knows."""
WITH_ZOOKEEPER = {METADATA: 11, API_VERSIONS: 3, ELECT: 2, REASSIGNMENTS: 0, CLUSTER: 0}
ANCIENT = {METADATA: 9, API_VERSIONS: 3, REASSIGNMENTS: 0}
_FIRST_FLEXIBLE = {METADATA: 9, API_VERSIONS: 99, ELECT: 2, REASSIGNMENTS: 0, QUORUM: 0, CLUSTER: 0}
CONTROLLER = 7
SASL_HANDSHAKE = 17
_NO_LOGINS_HERE = 34
_MAX_REQUEST_BYTES = 1_000_000


class FakeBroker:
    """Broker 1 of one; `elections` has how many partitions each election asked for."""

    def __init__(
        self,
        versions: Mapping[int, int],
        slow_seconds: float,
        advertised: str | None,
        stalls_at: int | None,
    ) -> None:
        self._versions = versions
        self._slow_seconds = slow_seconds
        self._stalls_at = stalls_at
        self._slowed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._advertised = advertised or "127.0.0.1"
        self.elections: list[int] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._slowed.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer in order, as brokers do: what is slow holds up what comes after it."""
        with connection, connection.makefile("rb") as incoming:
            while head := incoming.read(4):
                (size,) = struct.unpack(">i", head)
                if not 8 <= size <= _MAX_REQUEST_BYTES:
                    return  # TLS, HTTP
                body = incoming.read(size)
                api, version, id = struct.unpack(">hhi", body[:8])
                if api == SASL_HANDSHAKE:
                    connection.sendall(struct.pack(">iihi", 10, id, _NO_LOGINS_HERE, 0))
                    continue
                if api == METADATA and self._is_of_all_topics(body):
                    self._slowed.wait(self._slow_seconds)
                answer = self._answer(api, version, body).encode(version=version)
                header = struct.pack(">i", id) + b"\0" * (version >= _FIRST_FLEXIBLE[api])
                whole = struct.pack(">i", len(header + answer)) + header + answer
                if api == self._stalls_at:
                    connection.sendall(whole[: len(whole) // 2])
                    self._slowed.wait()
                    return
                try:
                    connection.sendall(whole)
                except OSError:
                    return

    @staticmethod
    def _is_of_all_topics(body: bytes) -> bool:
        client: int = struct.unpack(">h", body[8:10])[0]
        return body[10 + client + 1] == 0  # a compact array: 0 is null, 1 is empty

    def _answer(self, api: int, version: int, body: bytes) -> Any:
        from kafka.protocol import admin, metadata

        if api == API_VERSIONS:
            key = metadata.ApiVersionsResponse.ApiVersion
            return metadata.ApiVersionsResponse(
                error_code=0,
                api_keys=[
                    key(api_key=api, min_version=0, max_version=newest)
                    for api, newest in self._versions.items()
                ],
                throttle_time_ms=0,
            )
        if api == METADATA:
            return self._metadata(metadata.MetadataResponse)
        if api == CLUSTER:
            broker = admin.DescribeClusterResponse.DescribeClusterBroker
            return admin.DescribeClusterResponse(
                throttle_time_ms=0,
                error_code=0,
                error_message=None,
                cluster_id="a-cluster",
                controller_id=CONTROLLER,
                brokers=[broker(broker_id=1, host=self._advertised, port=self._port, rack=None)],
            )
        if api == ELECT:
            asked = admin.ElectLeadersRequest.decode(body, version=version, header=True)
            return self._elected(asked, admin.ElectLeadersResponse)
        if api == REASSIGNMENTS:
            return admin.ListPartitionReassignmentsResponse(
                throttle_time_ms=0, error_code=0, error_message=None, topics=[]
            )
        return admin.DescribeQuorumResponse(error_code=0, topics=[])

    def _metadata(self, response: Any) -> Any:
        topic = response.MetadataResponseTopic
        partition = topic.MetadataResponsePartition(
            error_code=0,
            partition_index=0,
            leader_id=1,
            leader_epoch=1,
            replica_nodes=[1],
            isr_nodes=[1],
            offline_replicas=[],
        )
        broker = response.MetadataResponseBroker
        return response(
            throttle_time_ms=0,
            brokers=[broker(node_id=1, host=self._advertised, port=self._port, rack=None)],
            cluster_id="a-cluster",
            controller_id=1,
            topics=[
                topic(
                    error_code=0,
                    name="t",
                    topic_id=UUID(int=5),
                    is_internal=False,
                    partitions=[partition],
                )
            ],
        )

    def _elected(self, request: Any, response: Any) -> Any:
        """Answer an election; a second one finds that the controller is gone."""
        result = response.ReplicaElectionResult
        self.elections.append(sum(len(topic.partitions) for topic in request.topic_partitions))
        return response(
            throttle_time_ms=0,
            error_code=0 if len(self.elections) == 1 else -1,
            replica_election_results=[]
            if len(self.elections) > 1
            else [
                result(
                    topic=topic.topic,
                    partition_result=[
                        result.PartitionResult(partition_id=p, error_code=0, error_message=None)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topic_partitions
            ],
        )


@contextmanager
def fake_broker(
    versions: Mapping[int, int],
    slow_seconds: float = 0.0,
    *,
    advertised: str | None = None,
    stalls_at: int | None = None,
) -> Iterator[FakeBroker]:
    """A broker that knows these requests, and is so slow to tell the metadata of all topics.

    It names itself by the host `advertised`, and stops for good in the middle of the answer to
    the request `stalls_at`.
    """
    broker = FakeBroker(versions, slow_seconds, advertised, stalls_at)
    try:
        yield broker
    finally:
        broker.close()
