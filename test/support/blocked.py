# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A driver process at work while the interpreter of the test's process is blocked."""

import ctypes


def done_while_python_is_blocked(driver):
    """Start the task of a driver process (Popen); return whether it reports '.' at its end."""
    driver.stdin.write(b'\n')
    driver.stdin.flush()
    found = ctypes.create_string_buffer(1)
    # unlike CDLL, PyDLL does not release the interpreter's lock during a call
    ctypes.PyDLL(None).read(driver.stdout.fileno(), found, 1)
    driver.stdin.close()
    return found.raw == b'.'
