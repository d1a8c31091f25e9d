"""Who is called and how a caller shows who it is: what both clients have in common."""

from __future__ import annotations

import math
import os
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple, Union

import grpc

from .retry import RetryBudget, RetryPolicy
from .steps import Patience

_THIS_MACHINE = ("localhost", "127.", "[::1]", "unix:")
_READ_AGAIN_S = 1.0


@dataclass(frozen=True)
class Tls:
    """Files in PEM, read once. ca_file: who may have signed the server's certificate; None: the authorities that gRPC
    knows (the variable GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names others). certificate_file, key_file: for a server that
    wants callers to have one; both or neither, the key without a password. server_name: what the server's certificate
    must name; None: the host of the address."""

    ca_file: Optional[str] = None
    certificate_file: Optional[str] = None
    key_file: Optional[str] = None
    server_name: Optional[str] = None


class Connection:
    """Thread-safe."""

    def __init__(self, address: Optional[str], timeout: Optional[float], tls: Union[Tls, bool, None],
                 token: Optional[str], token_file: Union[str, os.PathLike[str], None], retry: RetryPolicy,
                 max_message_bytes: int) -> None:
        self.address = os.environ.get("LION_SERVER") or "localhost:8001" if address is None else address
        if not self.address:
            raise ValueError("address is empty; expected host:port or unix:PATH")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected seconds above 0, or None for no deadline")
        if not 1 <= max_message_bytes < 2**31:
            raise ValueError(f"max_message_bytes is {max_message_bytes}; expected 1 to 2^31 - 1")
        if tls is None and os.environ.get("LION_TLS_CA"):
            tls = Tls(ca_file=os.environ["LION_TLS_CA"])
        self.timeout = timeout
        self.patience = Patience(retry, RetryBudget(retry.budget))
        self._tls = Tls() if tls is True else tls or None
        self._token = _TokenSource(token, token_file)
        self.options = _channel_options(self.address, self._tls, max_message_bytes)

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        """None: plaintext."""
        return _credentials(self._tls) if self._tls else None

    def metadata(self) -> Tuple[Tuple[str, str], ...]:
        token = self._token.token()
        return (("authorization", f"Bearer {token}"),) if token else ()

    def deadline(self, timeout: Optional[float]) -> float:
        """On the monotonic clock."""
        limit = self.timeout if timeout is None else timeout
        return math.inf if limit is None else time.monotonic() + limit


def seconds_until(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)


def grpc_timeout(deadline: float) -> Optional[float]:
    return None if math.isinf(deadline) else seconds_until(deadline)


def _channel_options(address: str, tls: Optional[Tls], max_message_bytes: int) -> List[Tuple[str, Any]]:
    """As the C++ client's, whose source says why."""
    options: List[Tuple[str, Any]] = [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.primary_user_agent", "lion-client-python"),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.min_reconnect_backoff_ms", 12_000),
    ]
    if address.startswith(_THIS_MACHINE):
        options.append(("grpc.enable_http_proxy", 0))
    if tls and tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if (tls.certificate_file is None) != (tls.key_file is None):
        raise ValueError(f"{'key_file' if tls.key_file else 'certificate_file'} alone; expected both or neither")
    if tls.certificate_file and tls.key_file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(tls.certificate_file, tls.key_file, password="")
        except ssl.SSLError as error:
            raise ValueError(f"certificate_file {tls.certificate_file}, key_file {tls.key_file}: {error}; expected a "
                             "certificate in PEM and its key without a password") from error

    def pem(path: Optional[str]) -> Optional[bytes]:
        if path is None:
            return None
        with open(path, "rb") as file:
            content = file.read()
        if b"-----BEGIN " not in content:
            raise ValueError(f"{path} holds nothing in PEM")
        return content

    return grpc.ssl_channel_credentials(pem(tls.ca_file), pem(tls.key_file), pem(tls.certificate_file))


class _TokenSource:
    """A token, or a file that is read again while calls are made. Thread-safe."""

    def __init__(self, token: Optional[str], token_file: Union[str, os.PathLike[str], None]) -> None:
        if token is not None and token_file is not None:
            raise ValueError("both token and token_file are set; expected one of them")
        if token is None and token_file is None:
            token_file = os.environ.get("LION_TOKEN_FILE") or None
            token = None if token_file else os.environ.get("LION_TOKEN")
        self._path = token_file
        self._token = _checked(token or "") if token_file is None else _token_in(token_file)
        self._lock = threading.Lock()
        self._read_at = time.monotonic()

    def token(self) -> str:
        with self._lock:
            now = time.monotonic()
            if self._path is not None and now - self._read_at >= _READ_AGAIN_S:
                self._read_at = now
                try:
                    self._token = _token_in(self._path)
                except (OSError, ValueError):
                    pass  # a file that is being replaced leaves the old one
            return self._token


def _token_in(path: Union[str, os.PathLike[str]]) -> str:
    """The first line that is neither empty nor begins with "#", as the server reads such a file."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.strip().startswith("#"):
                return _checked(line.strip())
    raise ValueError(f"token_file {os.fspath(path)}: holds no token")


def _checked(token: str) -> str:
    if not all("!" <= character <= "~" for character in token):
        raise ValueError("the token has other than visible ASCII characters")  # it is not shown
    return token
