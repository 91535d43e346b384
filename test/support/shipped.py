# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters, ends and URDF of the robots that come with the package."""

from functools import cache

import yaml

from common import CHECKOUT


@cache
def parameters(name, node='/**'):
    """Return the parameters of a node in the robot's configuration file."""
    text = (CHECKOUT / 'config' / f'{name}.yaml').read_text(encoding='utf-8')
    return yaml.safe_load(text)[node]['ros__parameters']


@cache
def urdf(name):
    return (CHECKOUT / 'osc_ros' / 'robots' / f'{name}.urdf').read_text(encoding='utf-8')


def ends(name):
    return parameters(name)['base'], parameters(name)['tip']
