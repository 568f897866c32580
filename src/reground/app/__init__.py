"""Wires the packages together: the catalogue, the configuration and the command line."""
