# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Places and times that many tests share."""

import os
from pathlib import Path
import sys

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 120.0  # timeout of a wait, for a busy machine; no test checks this time [s]


def import_path(*folders):
    """Return a PYTHONPATH by which a process imports from `folders` and what this one can."""
    return os.pathsep.join([*map(str, folders), *sys.path])
