# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The page answers its own browser only, not pages of strangers, nor names that they chose."""

from http.client import HTTPConnection
import socket
import time

import pytest

viser = pytest.importorskip('viser', reason='viser is not installed')

from websockets.exceptions import InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

import browser as chromium  # noqa: E402
from browser import Asked, free_port, needs_browser  # noqa: E402
from common import PATIENCE  # noqa: E402
from osc_ros.errors import InputError  # noqa: E402
from osc_ros.viewer.access import Access, guarded  # noqa: E402
from osc_ros.viewer.viewer_page import Page  # noqa: E402


@pytest.fixture(scope='module')
def local():
    page = Page('127.0.0.1', free_port(), Asked(), lambda uri: None,
                ['https://robot.example', 'http://other.example:8000'])
    yield page
    page.close()


@pytest.fixture(scope='module')
def open_to_all():
    page = Page('0.0.0.0', free_port(), Asked(), lambda uri: None)
    yield page
    page.close()


def answer(page, path='/', **headers):
    """Return status, text and cookie of the page's answer to a GET."""
    connection = HTTPConnection('127.0.0.1', page.port, timeout=30.0)
    try:
        connection.request('GET', path, headers={'Host': f'localhost:{page.port}', **headers})
        found = connection.getresponse()
        return found.status, found.read().decode('utf-8', 'replace'), found.getheader('Set-Cookie')
    finally:
        connection.close()


def socket_status(page, host=None, **headers):
    """Return 101 if the page accepts a WebSocket with these headers, else the HTTP status."""
    from viser import __version__
    name = host or f'localhost:{page.port}'
    try:
        with connect(f'ws://{name}/', sock=_socket(page), additional_headers=headers,
                     subprotocols=[f'viser-v{__version__}'], max_size=None):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def _socket(page):
    return socket.create_connection(('127.0.0.1', page.port), timeout=30.0)


def until(happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.02)


def test_own_page_is_served_and_connected(local):
    status, text, cookie = answer(local)
    assert (status, cookie) == (200, None)
    assert '<html' in text
    assert local.query == ''
    for name in ('localhost', '127.0.0.1', '[::1]'):
        at = f'{name}:{local.port}'
        assert socket_status(local, at, Origin=f'http://{at}') == 101
    # through a tunnel, the port that the browser knows is another one
    assert socket_status(local, 'localhost:9999', Origin='http://localhost:9999') == 101
    assert socket_status(local) == 101  # a program of this machine, which tells no origin


@pytest.mark.parametrize('origin', (
    'http://evil.example', 'https://localhost:{port}.evil.example', 'http://localhost:3000',
    'http://127.0.0.1', 'null', 'file://', '', 'http://localhost:{port}/x', 'nonsense',
    'http://[', 'http://localhost:99999'))
def test_page_of_a_stranger_cannot_connect(local, origin):
    assert socket_status(local, Origin=origin.format(port=local.port)) == 403
    assert answer(local, Origin=origin.format(port=local.port))[0] == 403


@pytest.mark.parametrize('host', (
    'evil.example', 'evil.example:{port}', '127.0.0.1.evil.example', 'localhost.evil.example',
    '192.0.2.1', '', '[', 'a@b'))
def test_name_that_was_pointed_to_this_machine_is_refused(local, host):
    host = host.format(port=local.port)
    status, text, _ = answer(local, Host=host)
    assert status == 403
    assert '--allow-origin' in text
    if host and host[-1].isalnum() and '@' not in host:
        assert socket_status(local, host, Origin=f'http://{host}') == 403


def test_allowed_origins_are_accepted(local):
    assert socket_status(local, 'robot.example', Origin='https://robot.example') == 101
    assert socket_status(local, Origin='http://other.example:8000') == 101
    assert socket_status(local, Origin='http://other.example') == 403
    assert socket_status(local, Origin='http://robot.example') == 403
    for bad in ('robot.example', 'ws://robot.example', 'http://', 'http://a/b', ''):
        with pytest.raises(InputError, match='(give|must be).*http://HOST'):
            Access('127.0.0.1', [bad])


def test_page_for_other_machines_needs_the_token_of_its_address(open_to_all):
    page = open_to_all
    token = page.query.partition('token=')[2]
    assert len(token) >= 20
    for path in ('/', '/?token=', '/?token=wrong', f'/?token={token[:-1]}', '/?x=1'):
        status, text, cookie = answer(page, path)
        assert (status, cookie) == (403, None)
        assert 'lacks the token' in text
        assert token not in text
    status, text, cookie = answer(page, page.query)
    assert status == 200
    assert '<html' in text
    name, _, value = cookie.partition(';')[0].partition('=')
    assert 'HttpOnly' in cookie and 'SameSite=Strict' in cookie
    given = {'Cookie': f'other=1; {name}={value}'}
    assert answer(page, '/', **given)[0] == 200
    assert socket_status(page) == 403
    assert socket_status(page, Cookie=f'{name}=wrong') == 403
    assert socket_status(page, Cookie=f'{name}=\xff\xfe') == 403
    at = f'192.0.2.7:{page.port}'  # an address of this machine on another network
    assert socket_status(page, at, Origin=f'http://{at}', **given) == 101
    assert socket_status(page, at, Origin='http://evil.example', **given) == 403
    assert socket_status(page, 'evil.example', Origin='http://evil.example', **given) == 403


@needs_browser
def test_browser_shows_the_page_by_the_whole_address_only(open_to_all):
    page = open_to_all
    with chromium.browser() as tab:
        tab.open(f'http://127.0.0.1:{page.port}/')
        tab.wait_for("document.body.innerText.includes('lacks the token')")
        assert page.browsers == 0
        tab.open(f'http://127.0.0.1:{page.port}{page.query}')
        tab.wait_for("document.querySelector('canvas') !== null")
        until(lambda: page.browsers == 1)


def test_tokens_differ():
    assert len({Access('0.0.0.0').token for _ in range(10)}) == 10


def test_server_that_cannot_be_guarded_is_refused():
    with pytest.raises(InputError, match='guarded'):
        with guarded(Access('127.0.0.1')):
            pass
