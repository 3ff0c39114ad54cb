"""What ends a training before its time: a signal, numbers that are not finite, too little memory. No domain."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch


class NotFinite(RuntimeError):
    """A loss or the gradient became NaN or infinite."""

    def __init__(
        self, step: int, terms: Mapping[str, float], norm: float, lr: float, file: str, *, skipped: int = 0
    ) -> None:
        """terms: every loss. file: where the samples are named. skipped: steps in a row that fp16 could not make."""
        self.step, self.terms, self.norm, self.lr = step, dict(terms), norm, lr
        shown = ", ".join(f"{name} {value:g}" for name, value in terms.items())
        what = f"{skipped} steps in a row overflowed in fp16" if skipped else "not finite"
        advice = "take precision bf16 or fp32" if skipped else "lower optimizer.lr, set clip_norm, lengthen the warm-up"
        super().__init__(
            f"step {step}: {what}: {shown}; gradient norm {norm:g}; lr {lr:g}. "
            f"The samples are named in {file}: look at them, or {advice}"
        )


class OutOfMemory(RuntimeError):
    """A step did not fit into memory."""


class Signals:
    """SIGTERM and SIGINT as a wish to end after the present step; a second one ends the process at once.

    Handlers can be set in the main thread only; in another nothing is caught.
    """

    caught = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.asked = False
        self._process = os.getpid()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in self.caught}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            # A forked loader worker has this handler too: Ctrl-C reaches it with its parent, which still needs it.
            if number == signal.SIGINT:
                return
            self._end(number)
        if self.asked:
            self._end(number)
        self.asked = True

    def _end(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


@contextmanager
def explained_memory(samples: int, precision: str, accumulate: int) -> Iterator[None]:
    """Turns torch's and Python's errors about memory into one that says what to lower. samples: of one batch."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        first = (str(error) or type(error).__name__).splitlines()[0]
        lower = "take precision bf16, " if precision == "fp32" else ""
        raise OutOfMemory(
            f"a batch of {samples} does not fit into memory: {first}. Lower the batch (and raise accumulate, now "
            f"{accumulate}, by as much), lower the crop or picture size, {lower}or name modules in recompute"
        ) from error


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "DefaultCPUAllocator: can't allocate memory" in text or "DefaultCPUAllocator: not enough memory" in text
