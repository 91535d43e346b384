"""The kinds of tasks: what a task's error is, and how the motion of its link changes it."""
