# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A driver process at work while the interpreter of the test's process is blocked."""

import ctypes


def done_while_python_is_blocked(driver):
    """Let a driver (Popen) begin its task; return whether it wrote '.' (done) at the end of it."""
    driver.stdin.write(b'\n')
    driver.stdin.flush()
    found = ctypes.create_string_buffer(1)
    # a function that is called by PyDLL, not by CDLL, has the interpreter's lock until it returns
    ctypes.PyDLL(None).read(driver.stdout.fileno(), found, 1)
    driver.stdin.close()
    return found.raw == b'.'
