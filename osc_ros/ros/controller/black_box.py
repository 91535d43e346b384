# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Black box: writes the last seconds of a control loop to a bag if a watchdog replaces the law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
import os
from pathlib import Path
import re
from shutil import rmtree
from threading import Event, Thread
from time import perf_counter, sleep, strftime
from typing import Any

from osc_ros.control.safety.causes import STOP
from osc_ros.control.safety.supervision import HARMLESS
from osc_ros.errors import OscError
from osc_ros.loop.journal import Piece
from osc_ros.recording import cdr
from osc_ros.recording.bag import BagWriter, required_module
from osc_ros.recording.export import JOURNAL, journal_messages, state_messages

AFTER = 2.0  # time after the event that the file contains, too [s]
BATCH, PAUSE = 20, 2e-3  # after BATCH messages the writing thread pauses for PAUSE seconds
CLOSING = 5.0  # longest time to wait for a file when the node ends [s]
FOLDER = 'osc_black_box'
BETWEEN = 60.0  # least time between two files of the same cause [s]
MOST_BYTES = 1e9  # largest total size of the files of all controllers in the folder [bytes]
# Folders of all controllers: name of the node, time, process, cause.
PATTERN = re.compile(r'(?P<name>\w+)_(?P<time>\d{8}_\d{6})_(?P<pid>\d+)_[a-z]\w*')


def log_folder() -> Path:
    """Return the folder of ROS's logs."""
    if folder := os.environ.get('ROS_LOG_DIR'):
        return Path(folder).expanduser()
    return Path(os.environ.get('ROS_HOME') or '~/.ros').expanduser() / 'log'


class BlackBox:
    """Writes the files in a thread of its own; errors appear only in `text` and in the log."""

    def __init__(self, name: str, pieces: Callable[[], list[Piece]], facts: dict[str, Any],
                 log: Callable[[str], object]) -> None:
        # the names of the files begin with this one; `pieces` is called in the node's thread
        self._name, self._pieces = name.strip('/').replace('/', '_'), pieces
        self._facts, self._log = facts, log  # see `Journal.facts`; `log` gets each new `text`
        self.text, self._cause, self._due = 'ready', '', float('inf')  # `text`: for diagnostics
        self._folder, self._most = log_folder() / FOLDER, 0
        self._written = dict[str, float]()  # times of the last files, by cause
        self._thread: Thread | None = None
        self._hurries = Event()
        try:
            required_module('mcap.writer')
        except OscError as error:
            self.text = f'no files: {error}'

    def apply(self, values: Mapping[str, Any]) -> None:
        """Set the parameters `black_box.…`."""
        given = values['black_box.directory']
        self._folder = Path(given).expanduser() if given else log_folder() / FOLDER
        self._most = values['black_box.files']

    def on_change(self, cause: str, reaction: str) -> None:
        """Prepare a file if a watchdog has replaced the law."""
        now = perf_counter()
        if (reaction in HARMLESS or cause == STOP or not self._most or self._cause
                or now < self._written.get(cause, -BETWEEN) + BETWEEN):
            return
        self._written[cause], self._cause, self._due = now, cause, now + AFTER

    def update(self) -> None:
        """Begin to write a file if it is due; call this regularly."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if perf_counter() < self._due or is_busy:
            return
        cause, self._cause, self._due = self._cause, '', float('inf')
        try:
            pieces = self._pieces()
        except OscError as error:  # the process of the loop has ended
            self.text = f'{cause}: not written: {error}'
            return
        self.text = 'writing a file'
        self._thread = Thread(target=self._try_to_write, args=(cause, pieces), name='black box',
                              daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish without pauses a file that is due, or that the thread is writing."""
        self._hurries.set()
        if self._cause:
            self._due = 0.0
            self.update()
        if self._thread is not None:
            self._thread.join(CLOSING)

    def _try_to_write(self, cause: str, pieces: list[Piece]) -> None:
        folder = self._folder / (f"{self._name}_{strftime('%Y%m%d_%H%M%S')}_{os.getpid()}_"
                                 f'{cause}')
        is_new = not folder.exists()
        try:
            self._remove_old()
            self._write(folder, pieces)
            self.text = f'{cause}: written to {folder}'
        except Exception as error:  # any error, such as a full disk or missing mcap
            self.text = f'{cause}: not written to {self._folder}: {error}'
            if is_new:
                rmtree(folder, ignore_errors=True)
        self._log(f'black box: {self.text}')

    def _remove_old(self) -> None:
        """Make room for one more file; OscError if files of other controllers that run take it."""
        found = []
        for one in self._folder.iterdir() if self._folder.is_dir() else ():
            if match := PATTERN.fullmatch(one.name):
                is_ours = int(match['pid']) == os.getpid() or not _runs(int(match['pid']))
                found.append((match['time'], match['name'], one, is_ours))
        ours = [one for _, name, one, is_ours in sorted(found) if is_ours and name == self._name]
        dropped = ours[:max(0, len(ours) + 1 - self._most)]
        left = [(one, is_ours) for *_, one, is_ours in sorted(found) if one not in dropped]
        total = sum(_size(one) for one, _ in left)
        for one, is_ours in left:
            if is_ours and total > MOST_BYTES:
                dropped.append(one)
                total -= _size(one)
        for one in dropped:
            rmtree(one, ignore_errors=True)
        if total > MOST_BYTES:
            raise OscError(f'it has {1e-9 * total:.1f} GB of files of other controllers: give '
                           "another folder ('black_box.directory'), or remove some")

    def _write(self, folder: Path, pieces: list[Piece]) -> None:
        if not pieces:
            raise OscError('the journal of the control loop is empty')
        facts, count = self._facts, 0
        bag = BagWriter(folder)
        try:
            topic, offset = f"{facts['node']}/{JOURNAL}", facts['clock offset']
            bag.write('/robot_description', cdr.TEXT, self._first_time(pieces, offset),
                      cdr.text(facts['urdf']))
            for message in chain(journal_messages(pieces, topic, offset),
                                 state_messages(pieces, facts)):
                bag.write(*message)
                count += 1
                if count % BATCH == 0 and not self._hurries.is_set():
                    sleep(PAUSE)
            bag.close()
        except BaseException:
            bag.abandon()
            raise

    def _first_time(self, pieces: list[Piece], offset: float) -> int:
        return next((one.time for one in journal_messages(pieces[:1], '', offset) if one.time),
                    0)


def _runs(pid: int) -> bool:
    return Path(f'/proc/{pid}').exists()


def _size(folder: Path) -> int:
    """Total size of the files in a folder [bytes]; another process may be removing them."""
    total = 0
    for one in folder.glob('*'):
        with suppress(OSError):
            total += one.lstat().st_size
    return total
