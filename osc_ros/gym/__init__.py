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

"""Environments of gymnasium: osc_ros/Reach-v0, osc_ros/Push-v0 and osc_ros/Wipe-v0."""

from __future__ import annotations

import gymnasium

STEPS = {'Reach': 100, 'Push': 200, 'Wipe': 200}  # longest episodes, at 20 Hz


def register() -> None:
    """Register the environments, unless they are registered."""
    for name, steps in STEPS.items():
        if f'osc_ros/{name}-v0' not in gymnasium.registry:
            gymnasium.register(f'osc_ros/{name}-v0', max_episode_steps=steps,
                               entry_point=f'osc_ros.gym.tasks:{name}')


register()
