"""Values, ports, and the run that ties them together. Imports pydantic and nothing else."""
