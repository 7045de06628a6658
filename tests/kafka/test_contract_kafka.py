"""KafkaClient keeps the contract of cluster clients on real brokers."""

from __future__ import annotations

from contract import BrokerDownContract, ClientContract


class TestKafkaClient(ClientContract):
    pass


class TestKafkaClientWithABrokerDown(BrokerDownContract):
    pass
