# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Steps a second of the environments of gymnasium: `python benchmark/environments.py`.

The second figure is for the processor time of the process: what other programs on the machine take
changes it less.
"""

from time import perf_counter, process_time

import gymnasium

import osc_ros.gym
from osc_ros.gym.environment import RATE, SUBSTEPS

STEPS, TURNS = 100, 5


def main() -> None:
    """Print the median rate of each environment on one core, over TURNS turns."""
    for name in osc_ros.gym.STEPS:
        for options in ({}, {'variable_impedance': True}, {'control': 'joints'}):
            env = gymnasium.make(f'osc_ros/{name}-v0', disable_env_checker=True, **options)
            env.reset(seed=0)
            env.action_space.seed(0)
            rates, own = [], []
            for _ in range(TURNS):
                begin, worked = perf_counter(), process_time()
                for _ in range(STEPS):
                    *_, is_done, is_over, _ = env.step(env.action_space.sample())
                    if is_done or is_over:
                        env.reset()
                rates.append(STEPS / (perf_counter() - begin))
                own.append(STEPS / (process_time() - worked))
            rate, fast = sorted(rates)[TURNS // 2], sorted(own)[TURNS // 2]
            print(f'{name} {options or ""}: {rate:.0f} steps/s, '
                  f'{rate * SUBSTEPS / RATE:.1f} times real time; {fast:.0f} steps in a second of '
                  f'processor time, {fast * SUBSTEPS / RATE:.1f} times')
            env.close()


if __name__ == '__main__':
    main()
