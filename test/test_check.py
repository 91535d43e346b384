"""The check at start-up, on efforts that MuJoCo finds, with friction and noise."""

from collections import Counter

import mujoco
import numpy as np
import pytest
from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.check import compared, SHARE, Verdict
from osc_ros.errors import InputError
from osc_ros.sim import Plant

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
ARMS = ('panda', 'ur5', 'ur10', 'kinova', 'iiwa_like', 'xarm7')
POSES = 12
STICTION = 0.6  # of the tolerance: what friction may hold of the weight, either way
NOISE = 0.1  # of the tolerance: standard deviation of an average
WELL, COMPENSATED, MASS, SIGN_OR_ORDER, UNEXPLAINED, UNCLEAR = Verdict


class Bench:
    """One arm at rest in MuJoCo, with sensors as bad as they may be."""

    def __init__(self, name, seed=0):
        case = robot_cases()[name]
        self.case, self.rng = case, np.random.default_rng(seed)
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        self.plant = Plant(case.urdf_text, case.base, self.robot.joint_names, locked=case.locked)
        limits = np.array(self.robot.effort_limits)
        self.limits = np.where(np.isfinite(limits), limits, 100.0)
        self.tolerance = SHARE * self.limits

    def pose(self):
        """Return a position in the middle two thirds of the limits."""
        lower, upper = np.clip(self.robot.position_limits.T, -np.pi, np.pi)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        return middle + 0.67 * half * self.rng.uniform(-1.0, 1.0, self.robot.n)

    def weight(self, q, mass=0.0, at=(0.0, 0.0, 0.0)):
        """Torques that hold the arm, with a mass more at a point of the tip's frame."""
        plant = self.plant
        plant.reset(np.clip(q, *self.robot.position_limits.T))
        model, data = plant._model, plant._data
        mujoco.mj_forward(model, data)
        held = data.qfrc_bias.copy()
        T = plant.pose(self.case.tip)
        point = np.linalg.inv(plant._T_base_root) @ T @ [*at, 1.0]
        pulled = np.zeros(model.nv)
        mujoco.mj_applyFT(model, data, mass * model.opt.gravity, np.zeros(3), point[:3],
                          plant._links[self.case.tip], pulled)
        return (held - pulled)[plant._at]

    def measured(self, torques):
        """Return what the driver would say: friction holds a part, and noise is on it."""
        return torques + self.tolerance * (
            STICTION * self.rng.uniform(-1.0, 1.0, torques.shape)
            + np.clip(NOISE * self.rng.normal(size=torques.shape), -0.4, 0.4))

    def judged(self, q, efforts):
        return compared(self.robot, q, efforts, self.tolerance)

    def telling(self, q):
        """Return the joints whose weight is more than three tolerances."""
        return np.flatnonzero(np.abs(self.weight(q)) > 3.0 * self.tolerance)


def well(bench, q):
    return bench.weight(q)


def compensated(bench, q):
    return np.zeros(bench.robot.n)


def mass(bench, q):
    # three times what the most telling joint would take for friction
    felt = np.abs(bench.weight(q, 1.0) - bench.weight(q)) / bench.tolerance
    return bench.weight(q, 4.0 / felt.max(), bench.rng.uniform(-0.05, 0.05, 3))


def sign(bench, q):
    efforts = bench.weight(q)
    efforts[bench.rng.choice(bench.telling(q))] *= -1.0
    return efforts


def order(bench, q):
    efforts = bench.weight(q)
    one = bench.rng.choice(bench.telling(q))
    far = np.flatnonzero(np.abs(efforts - efforts[one])
                         > 3.0 * np.maximum(bench.tolerance, bench.tolerance[one]))
    other = bench.rng.choice(far)
    efforts[[one, other]] = efforts[[other, one]]
    return efforts


TRUTHS = {'well': (well, WELL), 'compensated': (compensated, COMPENSATED), 'mass': (mass, MASS),
          'sign': (sign, SIGN_OR_ORDER), 'order': (order, SIGN_OR_ORDER)}



@pytest.mark.parametrize('name', ARMS)
def test_what_is_wrong_is_told_from_what_is_right_and_nothing_is_made_up(name, drawn_table):
    bench = Bench(name)
    told = {}
    for truth, (efforts, verdict) in TRUTHS.items():
        found = []
        for _ in range(POSES):
            q = bench.telling_pose()
            found.append(bench.judged(q, bench.measured(efforts(bench, q))))
        counts = told[truth] = Counter(one.verdict for one in found)
        assert counts[verdict] + counts[UNCLEAR] == POSES, [str(one) for one in found]
        assert counts[verdict] >= POSES - 2
    assert told['well'][WELL] == told['compensated'][COMPENSATED] == POSES
    drawn_table(name, told)


