"""The parts of the Search Agent: its actions and their parser, its prompts and exemplars, the choice between samples."""
