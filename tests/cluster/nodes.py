"""A Ray cluster on this machine: python -m tests.cluster.nodes NODES.

The head has no CPU, so that every worker is on a node that can be killed; each node has one logical CPU. The first line
of output is the address. Then a line of input with a node's number kills that node, as a power cut would; "add" adds
one. The end of the input ends the cluster.
"""

from __future__ import annotations

import logging
import os
import socket
import sys

HOST = "127.0.0.1"
_STORE = 80 * 1024 * 1024
_ATTEMPTS = 3
_PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")


def environment() -> dict[str, str]:
    """The environment of a cluster's processes, and of commands that join it."""
    return {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_agent_register_timeout_ms": "300000",  # on a busy machine the agents take their time
        "RAY_health_check_failure_threshold": "60",
        "RAY_enable_metrics_collection": "0",
    }


def _free(count: int) -> list[int]:
    """Ports that nobody has. A node that has to find its own waits for at most half a minute for its agents."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((HOST, 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main(nodes: int) -> None:
    """Serve until the input ends."""
    from ray.cluster_utils import Cluster

    logging.disable(logging.WARNING)
    cluster = Cluster(shutdown_at_exit=True)

    def add(cpus: int) -> object:
        shared = {"object_store_memory": _STORE, "include_log_monitor": False}
        if cluster.head_node is None:
            shared |= {"include_dashboard": False, "no_monitor": True}
        for attempt in range(_ATTEMPTS):
            ports = dict(zip(_PORTS, _free(len(_PORTS)), strict=True))
            try:
                return cluster.add_node(num_cpus=cpus, **shared, **ports)
            except Exception as error:  # a node gives its agents a quarter of a minute, which a busy machine may need
                print(f"a node did not start: {error}", file=sys.stderr, flush=True)
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError

    add(0)
    workers = [add(1) for _ in range(nodes)]
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "add":
            workers.append(add(1))
        else:
            cluster.remove_node(workers[int(line)], allow_graceful=False)
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
