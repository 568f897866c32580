"""The exit codes of the commands, apart from 0 and 1."""

EXIT_SURROUNDINGS = 2
EXIT_FAILED_QUESTIONS = 3
EXIT_INTERRUPTED = 130
EXIT_BUG = 70
EXIT_UNGROUNDED = 4
