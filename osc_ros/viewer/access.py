# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Access control of the page: checks every HTTP request and WebSocket before viser answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
import ipaddress
import secrets
import socket
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websockets.asyncio.server
from websockets.datastructures import Headers
from websockets.http11 import Response

from osc_ros.errors import InputError, installation

LOCAL = 'localhost', '127.0.0.1', '::1'
COOKIE = 'osc_ros_viewer'
_PATCH = Lock()


class Access:
    """Decides from the headers of a request whether the page answers it."""

    # With every WebSocket, a browser sends the origin of the page that opened it (`Origin`), and
    # the name by which it reached this machine (`Host`): an attacker's name after DNS rebinding.

    def __init__(self, host: str, origins: Sequence[str] = ()) -> None:
        self._origins = [_origin(one) for one in origins]
        self._is_local = host in LOCAL  # host: the address to which the server is bound
        self._names = {*LOCAL, host.lower(), *(one[1] for one in self._origins)}
        if not self._is_local:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        # secret that the address must contain; empty if only this machine can reach the page
        self.token = '' if self._is_local else secrets.token_urlsafe(16)

    def refusal(self, path: str, headers: Mapping[str, str]) -> str:
        """Return the reason to refuse a request; '' if the request is accepted."""
        host = headers.get('Host', '')
        name = _name_of(host)
        if name not in self._names and (self._is_local or not _is_address(name)):
            return (f"the page was opened as '{host}', which is not a name of this machine: "
                    'must be localhost, or a host of --allow-origin')
        origin = headers.get('Origin')
        if origin is not None and not self._accepts(origin, host):
            return (f"a page from '{origin}' asks: must be this page itself, or a page "
                    'of --allow-origin')
        if self.token and not self._has_token(path, headers):
            return 'the address lacks the token: osc_viewer prints the whole address'
        return ''

    def cookie(self, path: str) -> str:
        """Return the cookie for a request whose address contains the token, otherwise ''."""
        return (f'{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/'
                if self.token and self._is_token(_token_of(path)) else '')

    def _accepts(self, origin: str, host: str) -> bool:
        try:
            found = _origin(origin)
        except InputError:  # for example 'null', of a page from a file
            return False
        return found in self._origins or found[1:] == _origin(f'{found[0]}://{host}')[1:]

    def _has_token(self, path: str, headers: Mapping[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get('Cookie', '')).get(COOKIE)
        except CookieError:
            cookie = None
        return self._is_token(_token_of(path)) or (
            cookie is not None and self._is_token(cookie.value))

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())


@contextmanager
def guarded(access: Access) -> Iterator[None]:
    """Check every request to the server that viser starts within this context."""
    # InputError if viser did not start it by `websockets.asyncio.server.serve`: this version of
    # viser cannot be guarded, so its page must not be used.
    serve, served = websockets.asyncio.server.serve, []

    @wraps(serve)
    def guarded_serve(*given: Any, process_request: Any = None, **options: Any) -> Any:
        served.append(True)
        return serve(*given, process_request=_checked(access, process_request), **options)

    with _PATCH:
        websockets.asyncio.server.serve = guarded_serve  # type: ignore[misc,assignment]
        try:
            yield
        finally:
            websockets.asyncio.server.serve = serve  # type: ignore[misc]
    if not served:
        raise InputError('this version of viser cannot be guarded against other web pages: '
                         f"give the one of {installation('viewer')}")


def _checked(access: Access, answer: Callable[[Any, Any], Any] | None
             ) -> Callable[[Any, Any], Any]:
    """Return a `process_request` that refuses a request, or calls viser's, which is `answer`."""
    def process_request(connection: Any, request: Any) -> Any:
        if reason := access.refusal(request.path, request.headers):
            return Response(HTTPStatus.FORBIDDEN, 'Forbidden', Headers(
                {'Content-Type': 'text/plain; charset=utf-8', 'Connection': 'close'}),
                f'osc_viewer: {reason}\n'.encode())
        response = None if answer is None else answer(connection, request)
        if response is not None and (cookie := access.cookie(request.path)):
            response.headers['Set-Cookie'] = cookie
        return response
    return process_request


def _token_of(path: str) -> str:
    return parse_qs(urlsplit(path).query).get('token', [''])[0]


def _origin(text: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an origin."""
    try:
        found = urlsplit(text)
        port = found.port
    except ValueError:
        found, port = urlsplit(''), None
    if found.scheme not in ('http', 'https') or not found.hostname or found.path.strip('/'):
        raise InputError(f"origin '{text}': give http://HOST or http://HOST:PORT, also "
                         'with https')
    return found.scheme, found.hostname.lower(), port or (443 if found.scheme == 'https' else 80)


def _name_of(host: str) -> str:
    """Return the host of a `Host` header without its port."""
    try:
        return (urlsplit(f'//{host}').hostname or '').lower()
    except ValueError:
        return ''


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
