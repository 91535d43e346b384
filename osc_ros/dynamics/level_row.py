"""Columns of a task's row in the array that `Priorities` solves for."""

# Columns of a row of `Priorities`, in the axes of the task's frame: how much of every axis is
# controlled; acceleration; force of the spring, roots of its stiffness, roots of twice damping
# ratio times stiffness, velocity error; force that is added; square of the highest natural
# frequency that spring and mobility may have together; velocity of the target along the axes of
# motion, which `solve` does not read; MAPPED, 1 if the task's coordinates are not those of the
# link's twist: then their velocity is MAP (6 × 6, base axes) times the twist; the frame's rotation
# to base axes.
ACTIVATION, U, SPRING, ROOT, WEIGHT, RATE, WRENCH, FASTEST = 0, 6, 12, 18, 24, 30, 36, 42
VELOCITY, MAPPED, MAP, FRAME, WIDTH = 43, 49, 50, 86, 95
