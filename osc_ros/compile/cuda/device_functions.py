# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""GPU versions of the NumPy functions that kernels call, under their NumPy names."""

from __future__ import annotations

import math
from typing import Any

from numba import types
from numba.cuda import libdevice
from numba.cuda.extending import overload
import numpy as np

nan = np.nan
abs = abs
copysign = math.copysign
cos = math.cos
sin = math.sin
floor = math.floor
log = math.log
sqrt = math.sqrt


def rint(x: Any) -> Any:
    """The integer nearest to x, as a floating-point number."""
    return np.rint(x)


@overload(rint, strict=False)
def _rint(x: Any) -> Any:
    if x == types.float32:
        return lambda x: libdevice.rintf(x)
    return lambda x: libdevice.rint(x)
