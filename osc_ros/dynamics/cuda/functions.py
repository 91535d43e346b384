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

"""Functions of NumPy that the kernels call, by the names and for the types that the GPU has."""

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
