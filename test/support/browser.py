# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A headless Chromium for tests, driven over its debugging port."""

from __future__ import annotations

import base64
from contextlib import contextmanager
import json
from pathlib import Path
import shutil
import socket
import subprocess
import tempfile
import time
from urllib.request import urlopen

import pytest

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
PATIENCE = 60.0  # longest wait for the browser [s]
FLAGS = ('--headless=new', '--no-sandbox', '--disable-gpu-sandbox', '--use-gl=angle',
         '--use-angle=swiftshader', '--enable-unsafe-swiftshader', '--ignore-gpu-blocklist',
         '--hide-scrollbars', '--no-first-run', '--disable-extensions', '--mute-audio',
         '--disable-background-networking', '--remote-debugging-port=0')

CLOSE_NOTES = """document.querySelectorAll('.mantine-Notification-root button').forEach(
one => one.click())"""
# The field beside the slider with a label.
FIELD_OF = """(() => {let row = [...document.querySelectorAll('label')].find(
e => e.textContent === %s); while (!row.querySelector('input[type=text]')) row = row.parentElement;
return row.querySelector('input[type=text]')})()"""


def executable():
    """Return the path of a Chromium; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab; `errors` has what its console reported as an error, and uncaught exceptions."""

    def __init__(self, socket):
        """Use a connection to the tab."""
        self._socket, self._number, self.errors = socket, 0, []
        for domain in ('Page', 'Runtime', 'Log'):
            self.send(f'{domain}.enable')

    def send(self, method, **parameters):
        """Send a command; return its result."""
        self._number += 1
        self._socket.send(json.dumps(
            {'id': self._number, 'method': method, 'params': parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            self._note(message)
            if message.get('id') == self._number:
                assert 'error' not in message, message
                return message['result']

    def _note(self, message):
        found = message.get('params', {})
        if message.get('method') == 'Runtime.exceptionThrown':
            self.errors.append(found['exceptionDetails'].get('exception', {}).get(
                'description', found['exceptionDetails']['text']))
        elif message.get('method') == 'Runtime.consoleAPICalled' and found['type'] == 'error':
            self.errors.append(' '.join(str(one.get('value', one.get('description')))
                                        for one in found['args']))
        elif message.get('method') == 'Log.entryAdded' and found['entry']['level'] == 'error':
            self.errors.append(f"{found['entry']['text']} {found['entry'].get('url', '')}")

    def open(self, address, width=1280, height=800, scale=1.0):
        """Open a page in a window of this size [px]; `scale` is that of its screenshots."""
        self.send('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=scale, mobile=False)
        self.send('Page.navigate', url=address)
        self.wait_for('document.body !== null')

    def value(self, expression):
        """Return the value of an expression in JavaScript."""
        result = self.send('Runtime.evaluate', expression=expression, returnByValue=True)
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def wait_for(self, expression, patience=PATIENCE):
        """Wait until an expression is true."""
        deadline = time.monotonic() + patience
        while not self.value(expression):
            assert time.monotonic() < deadline, f'waited in vain for {expression}'
            time.sleep(0.1)

    def text(self):
        """Return the text of the page."""
        return self.value('document.body?.innerText ?? ""')  # null while a page loads

    def press(self, text):
        """Click the button with this text."""
        self.value('[...document.querySelectorAll("button")].find('
                   f'one => one.textContent.trim() === {json.dumps(text)}).click()')

    def set_slider(self, label, value):
        """Type a number into the field beside a slider."""
        field = FIELD_OF % json.dumps(label)
        x, y = self.value(f"(() => {{const f = {field}; f.scrollIntoView({{block: 'center'}});"
                          'const b = f.getBoundingClientRect();'
                          'return [b.x + b.width / 2, b.y + b.height / 2]})()')
        for _ in range(3):
            self.mouse('mousePressed', x, y, button='left', clickCount=3)
            self.mouse('mouseReleased', x, y, button='left', clickCount=3)
        self.send('Input.insertText', text=f'{value:g}')
        for kind in ('keyDown', 'keyUp'):
            self.send('Input.dispatchKeyEvent', type=kind, key='Enter', code='Enter',
                      windowsVirtualKeyCode=13)

    def mouse(self, kind, x, y, **more):
        """Move, press or release the mouse."""
        self.send('Input.dispatchMouseEvent', type=kind, x=x, y=y,
                  **{'button': 'none', **more})

    def drag(self, start, end, steps=12, pause=0.03):
        """Drag the mouse with the left button from one place to another [px]."""
        self.mouse('mouseMoved', *start)
        time.sleep(0.3)
        self.mouse('mousePressed', *start, button='left', buttons=1, clickCount=1)
        for k in range(1, steps + 1):
            self.mouse('mouseMoved', *(a + (b - a) * k / steps for a, b in zip(start, end)),
                       button='left', buttons=1)
            time.sleep(pause)
        self.mouse('mouseReleased', *end, button='left', clickCount=1)

    def picture(self, path=None, **options):
        """Return a PNG of the page; also write it to a file."""
        data = base64.b64decode(self.send('Page.captureScreenshot', **options)['data'])
        if path is not None:
            Path(path).write_bytes(data)
        return data


@contextmanager
def browser():
    """Within this context, a browser runs; yields its first tab."""
    from websockets.sync.client import connect
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable(), *FLAGS, f'--user-data-dir={profile}', 'about:blank'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = Path(profile, 'DevToolsActivePort')
            deadline = time.monotonic() + PATIENCE
            while not (port.exists() and port.read_text().count('\n')):
                assert time.monotonic() < deadline and process.poll() is None, 'no browser'
                time.sleep(0.05)
            number = port.read_text().split()[0]
            with urlopen(f'http://127.0.0.1:{number}/json') as answer:
                tab = next(one for one in json.load(answer) if one['type'] == 'page')
            with connect(tab['webSocketDebuggerUrl'], max_size=None,
                         open_timeout=PATIENCE) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


needs_browser = pytest.mark.skipif(executable() is None,
                                   reason='no Chromium: apt install chromium')


class Asked:
    """Records the requests of a page."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *given: self.calls.append((name, *given))


def free_port():
    with socket.socket() as trial:
        trial.bind(('127.0.0.1', 0))
        return trial.getsockname()[1]
