"""Tasks, metrics, the runner, the results store and the report."""
