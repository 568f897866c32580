"""Questions answered by workers in other processes and on other machines.

The command keeps the run folder and its journal; a worker builds model, documents and method from the same options and
keeps nothing. `wire` has what is sent, `outbox` and `worker` run at the worker, `pool` runs at the command, and
`on_ray` alone knows Ray.
"""
