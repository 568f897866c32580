"""The open web as a source of passages: search engines, polite and safe fetching, and snapshots to repeat a run."""
