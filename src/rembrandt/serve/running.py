"""Run the service as a process: address, token, and orderly shutdown."""

import gc
import ipaddress
import logging
import os
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from rembrandt.errors import SettingsError
from rembrandt.linalg.threads import at_most, n_threads
from rembrandt.serve.connection import Connection
from rembrandt.serve.guard import Guard
from rembrandt.serve.sending import Unsent

TOKEN = "REMBRANDT_TOKEN"  # environment variable
_MIN_TOKEN_CHARACTERS = 16
_GRACE_SECONDS = 30  # that requests in progress get at shutdown
_BACKLOG = 2048  # connections that wait to be accepted


def read_token(file: Path | None) -> str | None:
    """Return the token from a file or the environment; command lines are not used because other
    users can read them.
    """
    token: str | None
    if file is None:
        source = f"the variable {TOKEN}"
        token = os.environ.get(TOKEN)
    else:
        source = f"the file {file}"
        token = file.read_text(encoding="utf-8").strip()
    if token is not None and not _is_valid_token(token):
        rule = f"it needs {_MIN_TOKEN_CHARACTERS} or more ASCII characters without spaces"
        remedy = "make one with: openssl rand -hex 32"
        raise SettingsError(f"{source} has no valid token: {rule}; {remedy}")
    return token


def _is_valid_token(token: str) -> bool:
    if len(token) < _MIN_TOKEN_CHARACTERS:
        return False
    return token.isascii() and token.isprintable() and " " not in token


def check_address(host: str, token: str | None, no_token: bool) -> None:
    """Refuse an address that other machines can reach, unless there is a token or ``no_token``
    allows it.
    """
    if token is None and not no_token and not is_loopback(host):
        remedy = f"set {TOKEN} or use --token-file, or use --no-token to let everyone connect"
        raise SettingsError(f"other machines can reach {host}, and there is no token: {remedy}")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = (host.strip("[]"), port)
    try:
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or error
        message = (
            f"cannot listen on {host}, port {port}: {reason}; choose another with --host or --port"
        )
        raise SettingsError(message) from error
    listening.set_inheritable(True)
    return listening


class Server(uvicorn.Server):
    """A uvicorn server that logs warnings and errors only, and does not wait for half-sent requests
    at shutdown.
    """

    def __init__(self, app: Guard) -> None:
        connection: Any = partial(Connection, unsent=Unsent(app.limits.unsent))
        config = uvicorn.Config(
            app,
            http=connection,
            ws="none",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._guard.stop()
        await super().shutdown(sockets)


def run(app: Guard, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then finish the accepted requests."""
    # uvicorn handles the signals first and then calls these handlers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    # Half of the cores by default, for all of a prediction: the others parse requests and write
    # responses in the meantime, and what is handed to a thread on a busy core comes back late.
    threads = n_threads()
    if "REMBRANDT_NUM_THREADS" not in os.environ:
        threads = max(1, threads // 2)
    # A full collection would stop all threads for a tenth of a second, mostly to traverse modules.
    gc.freeze()
    with at_most(threads):
        Server(app).run([listening])
