"""Tree search over any state type: pure, no model in sight. The critics' data collection will live here."""
