"""Commands on a cluster: show, elect, groups, replicas, throttles, probe, doctor, audit."""
