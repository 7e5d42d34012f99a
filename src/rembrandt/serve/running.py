"""Run the service as a process: address, token, and orderly shutdown."""

import gc
import ipaddress
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from rembrandt.errors import SettingsError
from rembrandt.linalg.threads import n_threads
from rembrandt.serve.connection import Connection
from rembrandt.serve.guard import Guard

TOKEN = "REMBRANDT_TOKEN"  # environment variable
_MIN_LENGTH = 16  # characters of a token
_GRACE = 30  # seconds that requests in progress get at shutdown


def read_token(file: Path | None) -> str | None:
    """Return the token from a file or the environment; command lines are not used because other
    users can read them.
    """
    source = f"the file {file}" if file is not None else f"the variable {TOKEN}"
    token = os.environ.get(TOKEN) if file is None else file.read_text(encoding="utf-8").strip()
    if token is not None and (
        len(token) < _MIN_LENGTH or not token.isascii() or not token.isprintable() or " " in token
    ):
        rule = f"it needs {_MIN_LENGTH} or more ASCII characters without spaces"
        raise SettingsError(
            f"{source} has no valid token: {rule}; make one with: openssl rand -hex 32"
        )
    return token


def check_address(host: str, token: str | None, no_token: bool) -> None:
    """Refuse an address that other machines can reach, unless there is a token or ``no_token``
    allows it.
    """
    if token is None and not no_token and not is_loopback(host):
        remedy = f"set {TOKEN} or use --token-file, or use --no-token to let everyone connect"
        raise SettingsError(f"other machines can reach {host}, and there is no token: {remedy}")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
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
        quiet: Any = {"access_log": False, "log_level": "warning", "server_header": False}
        http_only: Any = {"http": Connection, "ws": "none", "proxy_headers": False}
        super().__init__(
            uvicorn.Config(app, **quiet, **http_only, timeout_graceful_shutdown=_GRACE)
        )
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._guard.stop()
        await super().shutdown(sockets)


def run(app: Guard, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then finish the accepted requests."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # uvicorn handles them first and then calls these handlers
        signal.signal(number, lambda *_: None)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    # Half of the cores by default; the others parse requests and write responses in the meantime.
    threads = n_threads() if "REMBRANDT_NUM_THREADS" in os.environ else max(1, n_threads() // 2)
    # A full collection would stop all threads for a tenth of a second, mostly to traverse modules
    gc.freeze()
    with threadpool_limits(threads, "blas"):
        Server(app).run([listening])
