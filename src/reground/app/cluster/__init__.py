"""Questions answered by workers in other processes and on other machines.

The command keeps the run folder and its journal; a worker builds model, documents and method from the same options and
keeps no file. `pool` runs at the command, `worker` at the worker, and `on_ray` alone knows Ray.
"""
