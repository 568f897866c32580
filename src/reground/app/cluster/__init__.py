"""Questions answered by workers, other processes here or on other machines, which keep no file.

`pool` runs at the command, which has the run folder and its journal, `worker` at the worker; `on_ray` alone knows Ray.
"""
