# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The Franka Hand, in a separate process because libfranka blocks while the hand moves."""

from __future__ import annotations

from contextlib import suppress
import os
import select
import subprocess
import sys
from time import monotonic, sleep
from typing import Any

from osc_ros.hardware.contract import HardwareError
from osc_ros.model.gripper_state import AT_GOAL, GripperState, HandGoal

OPENING = 10.0  # longest time until the hand has answered [s]
LOOK = 0.05  # time between two states of a hand at rest [s]
LONGEST = 65536  # largest number of bytes read at once
ANY = 1.0  # tolerance of the width of a grasped object: any width is accepted [m]
STATE, DONE = 'state', 'done'  # messages of the process


class FrankaHand:
    """A hand whose commands return at once; HardwareError if it does not answer."""

    # The separate process executes one command after the other. While the fingers move, libfranka
    # gives no state and accepts no other command, so `state` returns the last width, and a new
    # command begins after the previous one has ended. `widest` is the largest width [m].

    def __init__(self, address: str, name: str) -> None:
        self._name, self._rest = name, b''
        self._process = subprocess.Popen(
            [sys.executable, '-c', 'from osc_ros.hardware.franka_gripper import main; main()',
             address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._commands, self._answers = self._process.stdin, self._process.stdout
        for pipe in (self._commands, self._answers):
            os.set_blocking(pipe.fileno(), False)
        self._width, self.widest, self._failure, self._refusal = 0.0, 0.0, '', ''
        self._goal, self._running, self._holds = HandGoal(0.0), 0, False
        deadline = monotonic() + OPENING
        while not self.widest and not self._failure and monotonic() < deadline:
            self._take()
            sleep(0.01)
        if not self.widest:
            self.close()
            raise HardwareError(
                f'{name}: the hand does not answer ({self._failure or "no state came"}). Set '
                "'gripper' to false if there is none; move it once in Desk (homing) if it is new")
        self._goal = HandGoal(self._width)

    def move(self, goal: HandGoal) -> None:
        """Send a command; InputError if the hand does not accept the numbers."""
        goal.require_within(self.widest)
        self._take()
        try:
            self._commands.write(f'{goal.width} {goal.force} {goal.speed}\n'.encode())
            self._commands.flush()
        except OSError as error:
            raise HardwareError(f'{self._name}: the hand is lost ({self._failure or error}). '
                                'Open the arm again') from error
        self._goal, self._running, self._holds = goal, self._running + 1, False

    def state(self) -> GripperState:
        """Return the newest state; if the hand has refused a command, raise HardwareError once."""
        self._take()
        refusal, self._refusal = self._refusal or self._failure, ''
        if refusal:
            raise HardwareError(f'{self._name}: the hand: {refusal}')
        opens = self._goal.width > self._width
        rate = 0.0 if not self._running else self._goal.speed if opens else -self._goal.speed
        return GripperState(self._width, rate, self._goal.force if self._holds else 0.0,
                            self._goal.width, self._goal.force)

    def _take(self) -> None:
        """Read the messages of the process."""
        with suppress(BlockingIOError):
            self._rest += os.read(self._answers.fileno(), LONGEST)
        *lines, self._rest = self._rest.split(b'\n')
        for line in lines:
            word, width, widest, holds, text = line.decode().split(' ', 4)
            self._width, self.widest = float(width), float(widest)
            if word == STATE:
                self._failure = text
            else:
                self._running -= 1
                self._holds, self._refusal = bool(int(holds)), text
                if not self._running and not self._holds:
                    # the present width is the goal now: an obstacle may have stopped it
                    self._goal = self._goal._replace(width=self._width)

    def close(self) -> None:
        """End the process; the hand stays in its position."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        with suppress(OSError):
            self._commands.close()


def main() -> None:
    """Execute the commands of standard input, and write states, until the input ends."""
    import pylibfranka

    errors = pylibfranka.FrankaException, RuntimeError
    widths, rest, end = [0.0, 0.0], b'', False

    def say(word: str, holds: bool = False, text: str = '') -> None:
        print(word, *widths, int(holds), ' '.join(text.split()), flush=True)

    try:
        hand = pylibfranka.Gripper(sys.argv[1])
        while not end:
            state = hand.read_once()
            widths[:] = state.width, state.max_width
            say(STATE)
            if select.select([0], [], [], LOOK)[0]:
                found = os.read(0, LONGEST)
                *lines, rest = (rest + found).split(b'\n')
                end = not found
                for line in lines:
                    try:
                        widths[0], holds = _carried_out(hand, *map(float, line.split()))
                        say(DONE, holds)
                    except pylibfranka.CommandException as error:
                        widths[0] = hand.read_once().width
                        say(DONE, text=str(error))
    except errors as error:
        say(STATE, text=str(error) or type(error).__name__)


def _carried_out(hand: Any, width: float, force: float, speed: float) -> tuple[float, bool]:
    """Execute a command; return the width at its end, and whether the hand holds something."""
    # libfranka's `grasp` closes until something stops the fingers, whatever its width; its `move`
    # has no force
    grasps = hand.grasp(0.0, speed, force, ANY, ANY) if width == 0.0 else hand.move(width, speed)
    found = float(hand.read_once().width)
    return found, bool(width == 0.0 and grasps and found > AT_GOAL)


if __name__ == '__main__':
    main()
