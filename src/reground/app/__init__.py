"""Where everything is put together: the catalogue, configuration and the command line."""
