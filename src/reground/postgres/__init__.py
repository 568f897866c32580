"""A journal in PostgreSQL, which the runs of many machines share."""
