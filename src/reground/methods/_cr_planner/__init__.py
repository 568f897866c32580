"""The parts of CR-Planner: the states of its decision process, its prompts, its parsers and its search tree."""
