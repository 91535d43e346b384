# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gymnasium environments osc_ros/Reach-v0, osc_ros/Push-v0 and osc_ros/Wipe-v0."""

from __future__ import annotations

import gymnasium

STEPS = {'Reach': 100, 'Push': 200, 'Wipe': 200}  # most steps of an episode, at 20 Hz


def register() -> None:
    """Register the environments, unless they are registered already."""
    for name, steps in STEPS.items():
        if f'osc_ros/{name}-v0' not in gymnasium.registry:
            gymnasium.register(f'osc_ros/{name}-v0', max_episode_steps=steps,
                               entry_point=f'osc_ros.gym.tasks:{name}')


register()
