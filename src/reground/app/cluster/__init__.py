"""Questions answered by workers in other processes and on other machines.

The command keeps the run folder and its journal; a worker builds model, documents and method from the same options and
keeps nothing. `pool` runs at the command and has what is sent, `worker` runs at the worker, and `on_ray` alone knows
Ray.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reground.app.options import Cluster

if TYPE_CHECKING:
    from reground.app.cluster.pool import Pool
    from reground.app.options import Benchmark
    from reground.evaluation.compare import Cell, Configured
    from reground.models.options import ModelOptions
    from reground.training.critics.collect import Searching


@asynccontextmanager
async def opened_pool(
    order: Benchmark, methods: Sequence[str], notify: Callable[[str], None]
) -> AsyncIterator[Pool | None]:
    """The workers, ended at the end of the block; None where all is answered in this process."""
    if not isinstance(order, Cluster) or order.ray is None:
        yield None
        return
    from reground import __version__
    from reground.app.cluster.on_ray import joined, starter
    from reground.app.cluster.pool import Pool, Spec, changed

    async with joined(order, order.concurrency) as (ray, workers):
        capacity = math.ceil(order.concurrency / workers)
        data = order.data or (Path(os.environ["REGROUND_DATA"]) if os.environ.get("REGROUND_DATA") else None)
        own = changed(order, data=data, model_options=share_of(order.model_options, workers))
        start = starter(ray, Spec(own, tuple(methods), Path.cwd(), __version__), capacity, order.ray_cpus)
        async with Pool(start, order.task, workers=workers, capacity=capacity, notify=notify) as pool:
            yield pool


def share_of(options: ModelOptions, workers: int) -> ModelOptions:
    """One worker's share of the limits on what is asked of a server, so that all together keep them."""

    def part(rate: float | None) -> float | None:
        return None if rate is None else rate / workers

    return replace(
        options,
        connections=max(1, options.connections // workers),
        requests_per_minute=part(options.requests_per_minute),
        tokens_per_minute=part(options.tokens_per_minute),
    )


def placed(
    ready: Configured,
    pool: Pool | None,
    task: str,
    cell: Cell,
    tuned: Mapping[Cell, int],
    searching: Searching | None = None,
) -> Configured:
    """A configured method at the workers, if there are any. task: its name. tuned: the sizes that are not the cells'
    own. searching: how its choices are searched, where the workers are to grow trees.
    """
    if pool is None:
        return ready
    from reground.app.cluster.pool import Place
    from reground.app.cluster.worker import identity_of

    return replace(ready, elsewhere=pool.at(Place(task, cell, tuned.get(cell), searching), identity_of(ready.settings)))
