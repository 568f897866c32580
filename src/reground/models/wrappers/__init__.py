"""What every model needs and no adapter does: limits, retries, a shared cache."""
