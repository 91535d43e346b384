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

"""A progress bar on a terminal; lines in a file."""

from __future__ import annotations

import os
from time import perf_counter
from typing import TextIO

WIDTH = 24  # of the bar [characters]
LINE = 100  # largest length of a line [characters]
IN_FILE = 5.0  # least time between two lines in a file [s]
COLORS = {'good': '32', 'bad': '31', 'strong': '1'}


class Bar:
    """
    Shows how many of the expected experiments are done, and what is done now.

    Parameters
    ----------
    stream : file
    total : int
        Expected number of experiments; it grows if there are more.

    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self._total, self._done = stream, total, 0
        self._began, self._shown = perf_counter(), -IN_FILE
        self._has_terminal = stream.isatty()

    def __call__(self, what: object, counts: bool = True) -> None:
        """Show the next step; `counts`: it is one of the expected experiments."""
        self._done += counts
        self._total = max(self._total, self._done)
        now = perf_counter()
        text = f'{self._done:3} of {self._total}, {now - self._began:4.0f} s  {what}'
        if self._has_terminal:
            full = WIDTH * self._done // self._total
            line = f'[{"#" * full}{"." * (WIDTH - full)}] {text}'[:LINE]
            self._stream.write(f'\r{line:{LINE}}')
            self._stream.flush()
        elif now - self._shown >= IN_FILE:
            self._shown = now
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._has_terminal:
            self._stream.write(f'\r{"":{LINE}}\r')
            self._stream.flush()


def colored_text(text: str, color: str, stream: TextIO) -> str:
    """Return a text in one of COLORS if the stream is a terminal, and NO_COLOR is not set."""
    if not stream.isatty() or os.environ.get('NO_COLOR'):
        return text
    return f'\033[{COLORS[color]}m{text}\033[0m'
