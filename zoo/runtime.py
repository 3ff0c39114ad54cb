"""A network file becomes a callable: numpy in, numpy out. No torch unless the torch engine is asked for.

Three engines give the same numbers to float32 rounding: OpenVINO (default where it is installed), ONNX Runtime, and
the native PyTorch network. A session may be shared by threads.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np

Engine = Literal["auto", "openvino", "onnxruntime", "torch"]
Precision = Literal["f32", "fast"]
Keep = Callable[[np.ndarray], Any]


class Session(Protocol):
    """One network ready to run."""

    engine: str

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The first output for one float32 input. The result is the caller's own array."""
        ...

    def map(self, inputs: Iterable[np.ndarray], keep: Keep = np.array) -> list[Any]:
        """The first output for each input, run side by side, in the order of the inputs, which are taken lazily.

        keep: what is kept of an output, which is the engine's own memory and only lasts for the call; default a copy.
        """
        ...


def available_threads() -> int:
    """Processors this process may use (not those that the machine has)."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # macOS and Windows have no affinity call
        return os.cpu_count() or 1


def choose(engine: Engine) -> str:
    """The engine that "auto" stands for on this machine. ValueError where the one asked for is not installed."""
    if engine == "auto":
        for name in ("openvino", "onnxruntime"):
            if find_spec(name):
                return name
        raise ValueError("no inference engine is installed: pip install openvino, or pip install onnxruntime")
    if engine not in ("openvino", "onnxruntime", "torch"):
        raise ValueError(f"engine={engine!r}: give 'auto', 'openvino', 'onnxruntime' or 'torch'")
    if not find_spec(engine):
        raise ValueError(f"engine={engine!r} is not installed: pip install {engine}")
    return engine


def load(
    model: Path,
    *,
    engine: Engine = "auto",
    threads: int | None = None,
    streams: int = 1,
    precision: Precision = "f32",
    device: str = "cpu",
    native: Callable[[], Any] | None = None,
) -> Session:
    """A session for a network file (.onnx, or .pdmodel with its .pdiparams beside it: OpenVINO only).

    threads: processor threads in all, default every one this process may use. streams: inputs of `map` that run at
    once, each on threads / streams threads. precision: "f32", or "fast", which lets the CPU choose bf16.
    device: "cpu", "gpu" (OpenVINO) or "cuda" (ONNX Runtime, torch).
    native: for the torch engine, a function that gives the network with its weights as an `nn.Module`.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: give 1 or more")
    if precision not in ("f32", "fast"):
        raise ValueError(f"precision={precision!r}: give 'f32' or 'fast'")
    count = threads or available_threads()
    chosen = choose(engine)
    if chosen == "openvino":
        return OpenVINOSession(
            model, threads=count, streams=min(streams, count), precision=precision, device=device.upper()
        )
    if chosen == "onnxruntime":
        return ONNXRuntimeSession(model, threads=count, streams=min(streams, count), device=device)
    if native is None:
        raise ValueError(f"{model.name}: no native network is known for this file; use engine='openvino'")
    return TorchSession(native(), threads=count, device=device)


@cache
def _heap_trimmer() -> Callable[[int], int] | None:
    """glibc's malloc_trim; None where the C library is another."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _trim_heap() -> None:
    """Gives memory that was freed, but that the C library keeps for later, back to the system."""
    trim = _heap_trimmer()
    if trim is not None:
        trim(0)


class OpenVINOSession:
    """OpenVINO; requests are pooled, so threads share one compiled network.

    A network of free input size runs a fifth faster once compiled for one size, which takes as long as a few runs:
    a size that comes again and again (a camera, a scanner) is given its own compiled network, the last is kept.
    """

    engine = "openvino"
    SPECIAL_AFTER = 6  # runs of one size before it gets a network of its own
    SPECIAL_KEPT = 1  # such networks kept, for each holds its own buffers
    SPECIAL_PIXELS = 256 * 1024  # inputs smaller than this gain nothing
    RELEASE_PIXELS = 1536 * 1024  # buffers for inputs over this are given back at once

    def __init__(self, model: Path, *, threads: int, streams: int, precision: Precision, device: str) -> None:
        import openvino

        self._core = openvino.Core()
        if device not in {name.partition(".")[0] for name in self._core.available_devices}:
            raise ValueError(f"device={device.lower()!r}: OpenVINO sees {', '.join(self._core.available_devices)} here")
        self._settings: dict[str, Any] = {"NUM_STREAMS": streams}
        if device == "CPU":
            # Pinning would put the threads of every process on the same first cores.
            # Prepared kernels, one set for each input size. The default of 5000 grows by hundreds of megabytes; with
            # too few, a reader that meets many line widths prepares its kernels anew for most lines.
            self._settings |= {
                "INFERENCE_NUM_THREADS": threads,
                "ENABLE_CPU_PINNING": False,
                "CPU_RUNTIME_CACHE_CAPACITY": 1000,
            }
        if precision == "f32":
            self._settings["INFERENCE_PRECISION_HINT"] = "f32"
        self._model, self._device, self._streams = model, device, streams
        self._any_size = _Pool(self._compile(None))
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._met: set[tuple[int, ...]] = set()
        self._special: OrderedDict[tuple[int, ...], _Pool] = OrderedDict()
        self._lock = threading.Lock()

    def _compile(self, shape: tuple[int, ...] | None) -> Any:
        network = self._core.read_model(self._model)
        if shape:
            network.reshape(list(shape))
        return self._core.compile_model(network, self._device, self._settings)

    def _pool(self, shape: tuple[int, ...]) -> _Pool:
        if math.prod(shape[2:]) < self.SPECIAL_PIXELS:
            return self._any_size
        with self._lock:
            self._seen[shape] += 1
            if shape in self._special:
                self._special.move_to_end(shape)
            elif self._seen[shape] > self.SPECIAL_AFTER:
                self._any_size.release()  # its buffers are as large, and not needed for now
                self._special[shape] = _Pool(self._compile(shape))
                if len(self._special) > self.SPECIAL_KEPT:
                    self._seen[self._special.popitem(last=False)[0]] = 0
            return self._special.get(shape, self._any_size)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.map([x])[0]

    def map(self, inputs: Iterable[np.ndarray], keep: Keep = np.array) -> list[Any]:
        results: list[Any] = []
        running: deque[tuple[_Pool, Any]] = deque()
        try:
            for x in inputs:
                if len(running) == self._streams:
                    results.append(self._collect(running, keep))
                pool = self._pool(x.shape)
                request = pool.borrow()
                request.start_async([x], share_inputs=True)
                running.append((pool, request))
            while running:
                results.append(self._collect(running, keep))
                if not running and math.prod(x.shape[2:]) > self.RELEASE_PIXELS:
                    pool.release()
        finally:
            for pool, request in running:  # an error on the way: leave no request in flight
                request.wait()
                pool.give_back(request)
        return results

    def _collect(self, running: deque[tuple[_Pool, Any]], keep: Keep) -> Any:
        """Waits for the oldest request, gives what is kept of its output, and gives the request back."""
        pool, request = running.popleft()
        try:
            request.wait()
            kept = keep(request.get_output_tensor(0).data)
            shape = tuple(request.get_input_tensor(0).shape)
        finally:
            pool.give_back(request)
        if shape not in self._met:  # preparing kernels for a new size leaves much freed memory behind
            self._met.add(shape)
            _trim_heap()
        return kept


class _Pool:
    """A compiled network, its requests that are not running, and how many are."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self._idle: list[Any] = []
        self._running = 0
        self._lock = threading.Lock()

    def borrow(self) -> Any:
        """A request that nobody else uses."""
        with self._lock:
            self._running += 1
            return self._idle.pop() if self._idle else self.network.create_infer_request()

    def give_back(self, request: Any) -> None:
        """Ends a borrowing."""
        with self._lock:
            self._running -= 1
            self._idle.append(request)

    def release(self) -> None:
        """Gives the buffers back to the system, unless another thread is running in them."""
        with self._lock:
            if not self._running:
                self._idle.clear()
                self.network.release_memory()


class ONNXRuntimeSession:
    """ONNX Runtime on the CPU."""

    engine = "onnxruntime"

    def __init__(self, model: Path, *, threads: int, streams: int, device: str) -> None:
        import onnxruntime

        provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device)
        if provider not in onnxruntime.get_available_providers():
            raise ValueError(f"device={device!r}: ONNX Runtime has {', '.join(onnxruntime.get_available_providers())}")

        if model.suffix != ".onnx":
            raise ValueError(f"{model.name}: ONNX Runtime reads .onnx files; use engine='openvino'")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, threads // streams)
        options.log_severity_level = 3
        # Without these two, memory grows with every new picture size.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        self._network = onnxruntime.InferenceSession(str(model), options, providers=[provider])
        self._input = self._network.get_inputs()[0].name
        self._pool = ThreadPoolExecutor(streams, thread_name_prefix="onnxruntime") if streams > 1 else None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, self._network.run(None, {self._input: x})[0])

    def map(self, inputs: Iterable[np.ndarray], keep: Keep = np.array) -> list[Any]:
        def one(x: np.ndarray) -> Any:
            return keep(self(x))

        return list(self._pool.map(one, inputs) if self._pool else map(one, inputs))


class TorchSession:
    """The native PyTorch network, for those who want to see that the numbers are the same."""

    engine = "torch"

    def __init__(self, network: Any, *, threads: int, device: str) -> None:
        import torch

        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"device={device!r}: this torch sees no CUDA device")
        torch.set_num_threads(threads)
        self._torch, self._device = torch, torch.device(device)
        self._network = network.eval().to(self._device)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with self._torch.inference_mode():
            output = self._network(self._torch.from_numpy(x).to(self._device))
        first = output[0] if isinstance(output, tuple) else output
        return cast(np.ndarray, first.cpu().numpy())

    def map(self, inputs: Iterable[np.ndarray], keep: Keep = np.array) -> list[Any]:
        return [keep(self(x)) for x in inputs]
