"""The Search Agent learns from its own trajectories (ReST meets ReAct, sections 3.4 to 3.6)."""
