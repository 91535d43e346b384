# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

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
