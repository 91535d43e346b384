"""The control law of an arm: tasks, posture, limits and watchdogs, without ROS."""
