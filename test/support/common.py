# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Places, times and patterns that many tests share."""

import os
from pathlib import Path
import re
import sys

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 120.0  # timeout of a wait, for a busy machine; no test checks this time [s]


def import_path(*folders):
    """Return a PYTHONPATH by which a process imports from `folders` and what this one can."""
    return os.pathsep.join([*map(str, folders), *sys.path])


def naming(*parts):
    """
    Return a pattern for the message of an error that has these names and numbers, in this order.

    A test checks by it what an error names and what is accepted, not how the error is worded.

    """
    return '.*'.join(re.escape(str(part)) for part in parts)
