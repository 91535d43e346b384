# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tracking error with an inaccurate model in MuJoCo; writes doc/measurements/robustness.md."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from arm import PANDA, PERIOD, READY, settings
from common import CHECKOUT
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.sim import Plant
from tolerances import PERTURBED, PERTURBED_LEAST

PAGE = CHECKOUT / 'doc' / 'measurements' / 'robustness.md'
WRITE = "make test ARGS='-k robustness --write-tables'"
START, EIGHT, HOLD, SETTLED = 0.1, 4.0, 1.5, 0.5  # start, durations of eight, hold, settling [s]
BITS, NOISE, DRY, WRONG = 16, 0.01, 0.2, 0.1
SEED = 7

HEAD = f"""\
# Tracking errors with an inaccurate model

The shipped Panda in MuJoCo, controlled by the law with the settings of config/panda.yaml (natural
frequency 20 rad/s, critically damped, posture 5 rad/s) at {1.0 / PERIOD:.0f} Hz. The controller
does not know in which way the arm differs from its model. The tip traces a figure of eight of 30
cm × 15 cm in {EIGHT:g} s and then holds. The table has the errors of the tip during the motion,
and during the last {HOLD - SETTLED:g} s of the hold.

- masses: mass and inertia of every moving link differ from the model, either each link by its own
  factor, evenly distributed between −{WRONG:.0%} and +{WRONG:.0%}, or all links by the same
  factor;
- friction: {DRY} N·m of dry friction in every joint, the value in franka_description;
  compensated: the parameter `friction.coulomb` has this value;
- delay: a torque takes effect one period, {1e3 * PERIOD:g} ms, after its state was measured;
- encoders: a resolution of 2^{BITS} counts per turn ({1e3 * 2.0 * np.pi / 2 ** BITS:.2f} mrad);
- noise: normally distributed noise on the velocities, standard deviation {NOISE} rad/s.

"""

TAIL = f"""
Wrong masses and friction both act on the arm as an unmodelled torque τ, which displaces the tip
by JM⁻¹τ/ω². So twice the natural frequency ω reduces this error to a quarter, and friction has
most effect where the inertia is small (rotation of the wrist). Set the payload, and compensate
friction. Delay, encoder resolution and noise cost little at 20 rad/s; they bound ω from above.

Every run of the tests repeats these measurements and fails if a figure differs from this page by
more than {PERTURBED:.0%}. To write the page again: `{WRITE}`.
"""


@dataclass(frozen=True)
class Wrong:
    """Differences between the arm and its model; by default none."""

    masses: Callable = lambda rng: 1.0
    friction: float = 0.0
    compensated: bool = False
    delay: int = 0
    bits: int = 0
    noise: float = 0.0


def any_share(rng):
    """Return a random factor for the mass of one link."""
    return 1.0 + rng.uniform(-WRONG, WRONG)


CASES = {
    'none': Wrong(),
    'masses, each': Wrong(masses=any_share),
    f'masses, all +{WRONG:.0%}': Wrong(masses=lambda rng: 1.0 + WRONG),
    f'masses, all −{WRONG:.0%}': Wrong(masses=lambda rng: 1.0 - WRONG),
    'friction': Wrong(friction=DRY),
    'friction, compensated': Wrong(friction=DRY, compensated=True),
    'delay': Wrong(delay=1),
    'encoders': Wrong(bits=BITS),
    'noise': Wrong(noise=NOISE),
    'all of these': Wrong(any_share, DRY, False, 1, BITS, NOISE),
    'all of these, compensated': Wrong(any_share, DRY, True, 1, BITS, NOISE),
}
COLUMNS = ('eight rms [mm]', 'max [mm]', 'rms [°]', 'max [°]',
           'hold rms [mm]', 'max [mm]', 'rms [°]', 'max [°]')


def altered(masses, rng):
    """Return the Panda's URDF; `masses(rng)` gives the factor of each link's mass and inertia."""
    root = ElementTree.fromstring(PANDA.urdf_text)
    for link in root.iterfind('link[inertial]'):
        factor = masses(rng)
        for part in ('mass', 'inertia'):
            element = link.find(f'inertial/{part}')
            for key, value in element.attrib.items():
                element.set(key, repr(factor * float(value)))
    return ElementTree.tostring(root, encoding='unicode')


@cache
def measured(case, frequency=20.0):
    """Return a table row: the tip errors during the figure of eight and during the hold."""
    wrong, rng = CASES[case], np.random.default_rng(SEED)
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    plant = Plant(altered(wrong.masses, rng), PANDA.base, robot.joint_names,
                  friction=[wrong.friction] * 7, velocity_noise=wrong.noise, seed=SEED)
    known = Friction([DRY] * 7, [0.0] * 7) if wrong.compensated else None
    law = Law(robot, replace(settings(robot, frequency), friction=known))
    plant.reset(READY)
    law.hold(READY)
    path = figure_of_eight(plant.pose(PANDA.tip), 0.3, 0.15, EIGHT, 1.0, START, swing=0.17)
    law.follow(path, START)
    on_the_way = [law.bias_torque(READY, np.zeros(7))] * wrong.delay
    times, errors = [], []
    while plant.time < path.times[-1] + HOLD:
        T, D = plant.pose(PANDA.tip), path.at(plant.time).pose
        times.append(plant.time)
        errors.append((1e3 * np.linalg.norm(T[:3, 3] - D[:3, 3]), np.degrees(
            Rotation.from_matrix(D[:3, :3] @ T[:3, :3].T).magnitude())))
        q, qd, _ = plant.measured()
        if wrong.bits:
            step = 2.0 * np.pi / 2 ** wrong.bits
            q = step * np.round(q / step)
        on_the_way.append(law.torque(plant.time, q, qd))
        plant.step(on_the_way.pop(0), round(PERIOD / 1e-3))
    times, errors = np.array(times), np.array(errors)
    moving = errors[(times >= START) & (times <= path.times[-1])]
    held = errors[times >= path.times[-1] + SETTLED]
    return np.concatenate([pair for part in (moving, held) for pair in zip(
        np.sqrt((part ** 2).mean(axis=0)), part.max(axis=0))])


def table():
    """Return the text of doc/measurements/robustness.md."""
    lines = ['| error of the model | ' + ' | '.join(COLUMNS) + ' |',
             '|---|' + '---:|' * len(COLUMNS)]
    lines += [f'| {case} | ' + ' | '.join(f'{x:.3f}' for x in measured(case)) + ' |'
              for case in CASES]
    return HEAD + '\n'.join(lines) + '\n' + TAIL


@pytest.fixture(scope='module')
def page(request):
    """Return the text of the page; with --write-tables, write it first."""
    if request.config.getoption('--write-tables'):
        PAGE.write_text(table(), encoding='utf-8')
    return PAGE.read_text(encoding='utf-8')


# quick: the cases that have all errors, and that of the next test
@pytest.mark.parametrize('case', [
    case if 'all of these' in case else pytest.param(case, marks=pytest.mark.slow)
    for case in CASES])
def test_tracking_with_a_perturbed_model_is_as_the_page_says(page, case):
    [row] = re.findall(rf'^\| {re.escape(case)} \|(.*)\|$', page, re.MULTILINE)
    written = [float(x) for x in row.split('|')]
    np.testing.assert_allclose(measured(case), written, rtol=PERTURBED, atol=PERTURBED_LEAST)


def test_words_of_the_page_are_those_of_the_test(page):
    def words(text):
        return re.sub(r'^\|.*\n', '', text, flags=re.MULTILINE)
    assert words(page) == words(HEAD + TAIL)


def test_twice_the_natural_frequency_leaves_a_quarter_of_what_wrong_masses_cost():
    [case] = (name for name in CASES if '+' in name)
    slow, fast = measured(case), measured(case, 40.0)
    np.testing.assert_allclose(slow[4:] / fast[4:], 4.0, rtol=0.05)
