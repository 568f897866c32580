"""Proximal policy optimisation of a text model (Rewrite-Retrieve-Read, section 3.2)."""
