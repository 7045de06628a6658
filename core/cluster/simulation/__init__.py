"""A cluster without brokers: deterministic, with a clock, quotas, faults and load.

`cluster` speaks ClusterClient in this process, on top of `engine`, which lives one step of time
after the other; `server` and `client` are the two ends of a private socket to one in another
process. `spec` says what a cluster is made of, `demo` makes that of the demo.
"""
