"""A TCP proxy that makes a connection fail in the ways that networks do.

It relays bytes, and cuts what the client sends into HTTP requests so that one of them can be
picked by what it says. With a certificate it ends the client's TLS and opens its own to the
server; the server's certificate and key will do, so that the client notices nothing.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Mode = Literal["relay", "refuse", "black-hole"]


class Proxy:
    """Listens on a loopback port of its own and relays to `host`:`port`.

    `cert` and `key` are PEM files and switch TLS on, towards the client and the server.
    """

    def __init__(self, host: str, port: int, *, cert: Path | None = None, key: Path | None = None) -> None:
        self._server = (host, port)
        self._client_tls, self._server_tls = _contexts(cert, key)
        self._lock = threading.Lock()
        self._mode: Mode = "relay"
        self._links: set[Link] = set()
        self._drops: list[Drop] = []
        self._words: dict[bytes, bytes] = {}
        self._replaced: list[tuple[bytes, bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self.dropped = 0

    def __enter__(self) -> Self:
        self.spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Cut every connection there is; new ones go on as before."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def refuse(self) -> None:
        """Cut every connection, and each new one as soon as it is made."""
        self._mode = "refuse"
        self.cut()

    def black_hole(self) -> None:
        """Take connections and bytes, and give nothing back, as a lost route does."""
        self._mode = "black-hole"

    def resume(self) -> None:
        """Relay again; what fell into a black hole is cut, since its bytes are lost."""
        was, self._mode = self._mode, "relay"
        if was == "black-hole":
            self.cut()

    def drop_reply(self, containing: str, *, nth: int = 1) -> None:
        """Let the n-th request from now on that contains a text reach the server, and lose its reply."""
        with self._lock:
            self._drops.append(Drop(containing.encode(), nth))

    def exchange(self, words: Mapping[str, str]) -> None:
        """From now on let the server read other words in requests, as long ones: a password that was changed there."""
        self._words = {word.encode(): other.encode() for word, other in words.items()}
        assert all(len(word) == len(other) for word, other in self._words.items())

    def worded(self, request: bytes) -> bytes:
        """Put the other words in."""
        for word, other in self._words.items():
            request = request.replace(word, other)
        return request

    def replace(self, text: str, other: str) -> None:
        """Let the server say another text, of the same length, wherever it says this one."""
        assert len(text) == len(other)
        self._replaced.append((text.encode(), other.encode()))

    def altered(self, reply: bytes) -> bytes:
        """Give what the client is told in place of these bytes."""
        for text, other in self._replaced:
            reply = reply.replace(text, other)
        return reply

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._lock:
            return len(self._links)

    @property
    def mode(self) -> Mode:
        """What happens to bytes and connections."""
        return self._mode

    def spawn(self, target: object, *arguments: object) -> None:
        """Run a thread that `__exit__` waits for."""
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def loses_reply(self, request: bytes) -> bool:
        """Say whether the reply of this request is one to lose."""
        with self._lock:
            for drop in self._drops:
                if drop.containing in request:
                    drop.nth -= 1
                    if drop.nth == 0:
                        self._drops.remove(drop)
                        self.dropped += 1
                        return True
        return False

    def forget(self, link: Link) -> None:
        """Count a connection as closed."""
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self._mode == "refuse":
                _reset(client)
                continue
            self.spawn(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        link = Link(self, client)
        with self._lock:
            self._links.add(link)
        if self._mode == "black-hole":
            return  # open until it is cut
        try:
            link.open(self._server, self._client_tls, self._server_tls)
        except OSError:
            link.close()
            return
        link.relay()


class Drop:
    """A reply to lose."""

    def __init__(self, containing: bytes, nth: int) -> None:
        self.containing = containing
        self.nth = nth


class Link:
    """One connection of a client and the one to the server that goes with it."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server: socket.socket | None = None
        self._losing = False
        self._buffer = b""

    def open(
        self, address: tuple[str, int], client_tls: ssl.SSLContext | None, server_tls: ssl.SSLContext | None
    ) -> None:
        """Connect to the server, and shake hands on both sides where there is TLS."""
        self._server = socket.create_connection(address, timeout=30)
        self._server.settimeout(None)
        if client_tls and server_tls:
            self._client = client_tls.wrap_socket(self._client, server_side=True)
            self._server = server_tls.wrap_socket(self._server)

    def close(self) -> None:
        """Cut both sides at once."""
        for side in (self._client, self._server):
            if side is not None:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
                _reset(side)
        self._proxy.forget(self)

    def relay(self) -> None:
        """Pass bytes on in both directions until a side ends or a reply is to be lost.

        One thread does both: TLS connections must not be read and written at the same time.
        """
        with contextlib.suppress(OSError, ValueError):  # ValueError: cut while we waited for it
            while all(self._pass_on(side) for side in self._readable()):
                pass
        self.close()

    def _readable(self) -> list[socket.socket]:
        """Wait for bytes; TLS may hold some that the socket no longer shows."""
        assert self._server is not None
        sides: list[socket.socket] = [self._client, self._server]
        held: list[socket.socket] = [
            side for side in sides if isinstance(side, ssl.SSLSocket) and side.pending()
        ]
        return held or select.select(sides, [], [])[0]

    def _pass_on(self, side: socket.socket) -> bool:
        """Read from one side and write to the other; false at the end."""
        assert self._server is not None
        data = _received(side)
        if data == b"" or (data and self._losing and side is self._server):
            return False  # at its end, or the server begins to answer and so has done the work
        if data is None or self._proxy.mode != "relay":
            return True
        if side is self._server:
            self._client.sendall(self._proxy.altered(data))
            return True
        self._buffer += data
        while length := _whole(self._buffer):
            request, self._buffer = self._buffer[:length], self._buffer[length:]
            self._losing = self._losing or self._proxy.loses_reply(request)
            self._server.sendall(self._proxy.worded(request))
        return True


def _received(side: socket.socket) -> bytes | None:
    """Give what has arrived: nothing at the end, None when it was only TLS talking to itself."""
    side.settimeout(0)
    try:
        return side.recv(65536)
    except (BlockingIOError, ssl.SSLWantReadError):
        return None
    finally:
        side.settimeout(None)


def _whole(buffer: bytes) -> int:
    """Give the length of the request at the start, or 0 while it is not all there.

    What is not HTTP goes through as it comes. A chunked body counts as headers and more of the same.
    """
    head, separator, _ = buffer.partition(b"\r\n\r\n")
    if b" HTTP/1." not in buffer[:8192].split(b"\r\n", 1)[0]:
        return len(buffer)
    if not separator:
        return 0
    length = len(head) + len(separator)
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length += int(value)
    return length if len(buffer) >= length else 0


def _reset(side: socket.socket) -> None:
    """Close without a goodbye: the peer sees a reset, not an orderly end."""
    with contextlib.suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    side.close()


def _contexts(cert: Path | None, key: Path | None) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Make the contexts towards the client and towards the server."""
    if cert is None:
        return None, None
    towards_client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    towards_client.load_cert_chain(cert, key)
    towards_server = ssl.create_default_context(cafile=str(cert))
    towards_server.check_hostname = False
    return towards_client, towards_server
