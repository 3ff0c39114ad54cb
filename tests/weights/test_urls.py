"""Fetching from an address: resuming, retries, refusals and proxies, against a server on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.weights.local import Server, cut, entry_of, file_of, reply
from zoo import weights
from zoo.weights import UrlSource, WeightsError, urls

DATA = bytes(range(256)) * 40
HALF = len(DATA) // 2

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Where the beginning of DATA is kept between attempts and runs."""
    return tmp_path / "home" / "weights" / ".parts" / file_of("a", DATA).sha256


def got(*addresses: str) -> bytes:
    entry = entry_of("e", file_of("a.onnx", DATA, *(UrlSource(url=url) for url in addresses)))
    return weights.get(entry, progress=False)["a.onnx"].read_bytes()


def test_an_empty_file() -> None:
    with Server(lambda handler: reply(handler, b"")) as server:
        entry = entry_of("e", file_of("a.onnx", b"", UrlSource(url=server.url)))
        assert weights.get(entry, progress=False)["a.onnx"].read_bytes() == b""


@pytest.mark.parametrize("length", [None, -1], ids=["with a length", "without a length"])
def test_a_file(length: int | None, part: Path) -> None:
    with Server(lambda handler: reply(handler, DATA, length=length)) as server:
        assert got(f"{server.url}/a.onnx") == DATA
        assert server.requests == [("/a.onnx", "")]
    assert not part.exists()


def test_a_broken_connection_is_taken_up_where_it_broke() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Range"):
            reply(handler, DATA)
        else:
            cut(handler, DATA, HALF)

    with Server(answer) as server:
        assert got(f"{server.url}/a") == DATA
        assert server.requests == [("/a", ""), ("/a", f"bytes={HALF}-")]


def test_many_breaks_are_no_failure_while_something_comes() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        begun = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        handler.send_response(206 if begun else 200)
        handler.send_header("Content-Range", f"bytes {begun}-{len(DATA) - 1}/{len(DATA)}")
        handler.send_header("Content-Length", str(len(DATA) - begun))
        handler.end_headers()
        handler.wfile.write(DATA[begun : begun + len(DATA) // 12])

    with Server(answer) as server:
        assert got(server.url) == DATA
        assert len(server.requests) > 3 * urls.ATTEMPTS


def test_a_server_that_cannot_resume_sends_all_again() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if len(server.requests) == 1:
            cut(handler, DATA, HALF)
        else:
            reply(handler, DATA, ranges=False)

    with Server(answer) as server:
        assert got(server.url) == DATA
        assert len(server.requests) == 2


def test_a_range_that_was_not_asked_for_is_not_appended() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if len(server.requests) == 1:
            cut(handler, DATA, HALF)
        elif len(server.requests) == 2:
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes 0-{len(DATA) - 1}/{len(DATA)}")
            handler.send_header("Content-Length", str(len(DATA)))
            handler.end_headers()
            handler.wfile.write(DATA)

    with Server(answer) as server:
        assert got(server.url) == DATA


def test_what_an_earlier_run_got_is_kept(part: Path) -> None:
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA[:100])
    with Server(lambda handler: reply(handler, DATA)) as server:
        assert got(server.url) == DATA
        assert server.requests == [("/", "bytes=100-")]
    assert not part.exists()


@pytest.mark.parametrize("length", [100, len(DATA), len(DATA) + 9], ids=["shorter", "as long", "longer"])
def test_a_beginning_of_another_file_is_thrown_away(part: Path, length: int) -> None:
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * length)
    with Server(lambda handler: reply(handler, DATA)) as server:
        assert got(server.url) == DATA
        assert server.requests[-1] == ("/", "")


def test_a_beginning_that_the_server_cannot_continue(part: Path) -> None:
    """416 Range Not Satisfiable: it is asked again for the whole."""
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA[:HALF])

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Range"):
            handler.send_error(416)
        else:
            reply(handler, DATA)

    with Server(answer) as server:
        assert got(server.url) == DATA
        assert server.requests == [("/", f"bytes={HALF}-"), ("/", "")]


def test_another_address_goes_on_where_the_first_gave_up() -> None:
    def breaks(handler: BaseHTTPRequestHandler) -> None:
        if len(first.requests) == 1:
            cut(handler, DATA, HALF)
        else:
            handler.send_error(404)

    with Server(breaks) as first, Server(lambda handler: reply(handler, DATA)) as second:
        assert got(first.url, second.url) == DATA
        assert second.requests == [("/", f"bytes={HALF}-")]


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_passing_trouble_is_tried_again(code: int) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if len(server.requests) < urls.ATTEMPTS:
            handler.send_error(code)
        else:
            reply(handler, DATA)

    with Server(answer) as server:
        assert got(server.url) == DATA


@pytest.mark.parametrize(("code", "requests"), [(401, 1), (403, 1), (404, 1), (503, urls.ATTEMPTS)])
def test_trouble_that_lasts_is_told(code: int, requests: int) -> None:
    with Server(lambda handler: handler.send_error(code)) as server:
        with pytest.raises(WeightsError, match=f"{server.url}: HTTP {code} "):
            got(server.url)
        assert len(server.requests) == requests


def test_the_pauses_double(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(urls, "PAUSE", 0.5)
    monkeypatch.setattr(time, "sleep", pauses.append)
    with Server(lambda handler: handler.send_error(503)) as server, pytest.raises(WeightsError):
        got(server.url)
    assert [pause for pause in pauses if pause >= 0.5] == [0.5, 1.0, 2.0]


def test_nobody_there() -> None:
    with Server(lambda handler: None) as server:
        address = server.url
    with pytest.raises(WeightsError, match="Connection refused"):
        got(address)


def test_another_file_is_refused_before_it_is_fetched(part: Path) -> None:
    with Server(lambda handler: reply(handler, b"<html>please log in</html>")) as server:
        with pytest.raises(WeightsError, match=f"is 26 bytes long, not {len(DATA)}"):
            got(server.url)
        assert len(server.requests) == 1
    assert not part.exists()


def test_another_file_of_the_same_length_is_refused() -> None:
    with Server(lambda handler: reply(handler, DATA[::-1])) as server, pytest.raises(WeightsError, match="sha256 is "):
        got(server.url)


def test_a_stream_without_end_is_left(part: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(DATA)
        except OSError:
            pass  # the other side has left, as it should

    with Server(answer) as server:
        assert got(server.url) == DATA  # it begins with the file, and no more is read


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/a", "no address", "http://[bad/"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(WeightsError, match=r"e: a\.onnx"):
        got(address)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(lambda handler: reply(handler, DATA)) as server:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.delenv("NO_PROXY")
        yield server


def test_the_proxy_of_the_environment_is_asked(proxy: Server) -> None:
    assert got("http://weights.invalid/a.onnx") == DATA
    assert proxy.requests == [("http://weights.invalid/a.onnx", "")]
