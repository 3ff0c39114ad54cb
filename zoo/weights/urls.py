"""Bytes behind an address, with what a bad line needs: resuming, retries with pauses, proxies of the environment."""

from __future__ import annotations

import time
from pathlib import Path

from zoo.weights.entry import Refused
from zoo.weights.progress import Advance

ATTEMPTS = 4  # in a row that bring nothing new
PAUSE = 0.5  # seconds before the second attempt; doubled before each further one
TIMEOUT = 60.0  # seconds without a byte
BLOCK = 1 << 18
PASSING = frozenset({408, 416, 425, 429})  # HTTP answers below 500 that another attempt may change


def download(url: str, part: Path, size: int, advance: Advance) -> bytes:
    """The `size` bytes behind an address. What came is kept in `part`, and a later call goes on from there.

    Raises Refused for an answer that no retry will better, and after ATTEMPTS in a row that brought nothing new.
    """
    import http.client
    import urllib.error

    if not url.lower().startswith(("http://", "https://")):
        raise Refused("is no http or https address")
    part.parent.mkdir(parents=True, exist_ok=True)
    best, idle, trouble = _length(part), 0, "nothing came"
    while idle < ATTEMPTS:
        if idle:
            time.sleep(PAUSE * 2 ** (idle - 1))
        try:
            _continue(url, part, size, advance)
            return part.read_bytes()
        except urllib.error.HTTPError as error:
            trouble = f"HTTP {error.code} {error.reason}"
            if error.code < 500 and error.code not in PASSING:
                raise Refused(trouble) from None
            if error.code == 416:  # what lies in `part` is no beginning of that file
                part.unlink(missing_ok=True)
        except (OSError, http.client.HTTPException) as error:
            trouble = str(getattr(error, "reason", error)) or type(error).__name__
        except ValueError as error:  # an address, or a length, of an unusual form
            raise Refused(str(error)) from None
        idle = 0 if _length(part) > best else idle + 1
        best = max(best, _length(part))
    raise Refused(f"{trouble} ({ATTEMPTS} attempts)")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _continue(url: str, part: Path, size: int, advance: Advance) -> None:
    """Appends to `part` what is still lacking. Raises OSError when the line breaks, Refused for another file."""
    import urllib.request

    begun = _length(part)
    if begun >= size:  # whole, or of a longer file: the caller's sha256 tells which
        part.touch()
        return
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    # An opener of its own: the shared one keeps the proxies that the environment named when it was first used.
    with urllib.request.build_opener().open(request, timeout=TIMEOUT) as answer:
        # A server that cannot resume sends the whole file with 200, one that errs a range of its own choice.
        resumed = begun > 0 and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {begun}-")
        received = begun if resumed else 0
        length = answer.headers.get("Content-Length")
        if length and received + int(length) != size:
            raise Refused(f"is {received + int(length)} bytes long, not {size}")
        with part.open("ab" if resumed else "wb") as file:
            while received < size and (block := answer.read(min(BLOCK, size - received))):
                file.write(block)
                received += len(block)
                advance(received, size)
    if received < size:
        raise OSError(f"the connection closed after {received} of {size} bytes")
