"""Benchmarks, one file a family; and tasks by name."""

from reground.evaluation.tasks._registry import folder_schemes, load_task, load_tasks, load_training_task, task_names

__all__ = ["folder_schemes", "load_task", "load_tasks", "load_training_task", "task_names"]
