"""Workers as Ray actors: joining a cluster, or starting one on this machine for the time of a command."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

from reground.app.cluster.worker import Spec, Worker, WorkerLost
from reground.app.options import Cluster
from reground.core.errors import ConfigurationError, MissingExtra, RegroundError

HERE, AUTO = "local", "auto"
_STORE = 128 * 2**20  # bytes of Ray's object store for a cluster of this machine; only large parcels go through it
_ANSWER_SECONDS = 5.0


@asynccontextmanager
async def ray_cluster(order: Cluster, concurrency: int) -> AsyncIterator[tuple[Any, int]]:
    """Ray itself, connected as the options say, and the number of workers; disconnected at the end of the block.

    Raises MissingExtra, and ConfigurationError where no cluster answers.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("--ray", "ray")
    address = order.ray or HERE
    if address not in (HERE, AUTO):
        await _check(address)
    began: Future[Any] = Future()
    ended = threading.Event()

    def hold() -> None:
        """Begin Ray, and stay: what it starts on this machine is killed by the system when this thread ends."""
        try:
            began.set_result(_connect(address, order.ray_workers or min(concurrency, os.cpu_count() or 1), order))
            ended.wait()
        except BaseException as error:
            began.set_exception(error)

    # Ctrl-C need not wait for Ray, which takes seconds to start or to give up
    began.set_running_or_notify_cancel()  # so that a cancelled wait does not end it
    threading.Thread(target=hold, name="reground-ray", daemon=True).start()
    ray = await asyncio.wrap_future(began)
    try:
        workers = order.ray_workers or max(1, int(ray.cluster_resources().get("CPU", 0) / order.ray_cpus))
        yield ray, min(workers, concurrency)
    finally:
        ray.shutdown()
        ended.set()


async def _check(address: str) -> None:
    """Refuse an address where nothing answers; Ray itself would try for a minute."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        raise ConfigurationError(f"--ray takes local, auto or an address HOST:PORT, not {address!r}")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), _ANSWER_SECONDS)
    except (OSError, TimeoutError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "no answer"
        raise ConfigurationError(
            f"no Ray cluster answers at {address} ({why}): start one there with `ray start --head`, or give --ray local"
        ) from None
    writer.close()


def _connect(address: str, workers: int, order: Cluster) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    own = {"num_cpus": math.ceil(workers * order.ray_cpus), "include_dashboard": False, "object_store_memory": _STORE}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **(own if address == HERE else {}))
    except Exception as error:  # Ray raises the bare class where a node does not start in time
        raise ConfigurationError(f"Ray does not connect to {address}: {_line(str(error), 0)}") from None
    return ray


class Actor:
    """A worker that is a Ray actor, begun on the machine that has the fewest. capacity: its questions at once."""

    def __init__(self, ray: Any, spec: Spec, capacity: int, cpus: float) -> None:
        kind = ray.remote(Worker).options(
            num_cpus=cpus,
            max_restarts=0,  # the pool begins another one, and knows which questions were lost
            max_task_retries=0,
            max_concurrency=capacity + 8,  # beside its questions: opening, those that were taken back
            scheduling_strategy="SPREAD",
        )
        self._ray, self._actor = ray, kind.remote(spec)

    async def call(self, method: str, *arguments: object) -> Any:
        """What the worker's method returns. Raises WorkerLost where the worker is gone."""
        try:
            return await getattr(self._actor, method).remote(*arguments)
        except self._ray.exceptions.RayTaskError as error:
            raise RegroundError(f"a worker failed in {method}: {_line(str(error), -1)}") from None
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(_line(str(error), -1 if "creation task" in str(error) else 0)) from None

    def kill(self) -> None:
        """End the actor's process."""
        with suppress(Exception):  # it may be gone, and Ray too
            self._ray.kill(self._actor)


def _line(text: str, place: int) -> str:
    """The first or the last line of a message of Ray's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[place] if lines else "no reason was given"
