# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of the package that a test starts as processes."""

import signal
import subprocess
import sys


class Processes:
    """Starts commands as processes, and ends those that are still running."""

    def __init__(self, folder):
        """Set the folder for the log files."""
        self._folder, self.running = folder, []

    def start(self, module, *arguments):
        """Return a new process, whose attribute `log` is the path of its log."""
        path = self._folder / f'{len(self.running)}_{module}.log'
        with path.open('w') as log:
            process = subprocess.Popen(
                [sys.executable, '-m', 'osc_ros.start', module, *map(str, arguments)],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        process.log = path
        self.running.append(process)
        return process

    def end(self):
        """Send SIGINT to every running process; kill it if it has not ended after 10 s."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(timeout=10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def complaints(text):
    """Return the lines in which a node of osc_ros, not launch or DDS, reports an error."""
    return [line for line in text.split('\n') if 'Traceback' in line or '[osc_' in line
            and ('[ERROR]' in line or '[FATAL]' in line)]
