"""The options of working on several machines."""

from __future__ import annotations

from dataclasses import dataclass, field

_CLUSTER = {"panel": "Cluster"}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where questions are answered, and trees grown."""

    ray: str | None = field(default=None, metadata={"metavar": "ADDRESS", **_CLUSTER})
    """Answer the questions in workers of Ray (the extra ray): local starts them on this machine, auto takes the cluster
    that runs here or that RAY_ADDRESS names, HOST:PORT the one there. --concurrency and the limits on what is asked of
    a server are shared out over the workers."""

    ray_workers: int | None = field(default=None, metadata={"min": 1, **_CLUSTER})
    """The number of workers; by default one for each of the cluster's CPUs, and at most --concurrency."""

    ray_cpus: float = field(default=1.0, metadata={"file": True, "min": 0.01, **_CLUSTER})
    """The CPUs that Ray keeps free for each worker; less than 1 puts several on one."""
