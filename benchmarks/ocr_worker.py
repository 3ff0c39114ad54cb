"""One OCR system in a process of its own; runs in that system's virtual environment, so it needs nothing but Python.

    python ocr_worker.py --system NAME --threads N --options JSON               JSON lines: a request in, a reply out
    python ocr_worker.py --system NAME --threads N --options JSON --startup P   reads P once, prints one reply, ends

Replies: first {"versions", "import_seconds", "load_seconds"}, then for each request {"picture": path} one
{"seconds", "lines": [[polygon, text, score], ...], "peak_kib"}. `seconds` runs from the path to the lines, so decoding
the file counts. Whatever the system itself prints goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Any

Line = tuple[list[list[float]], str, float]
Read = Callable[[str], list[Line]]

PACKAGES = (
    "rapidocr-onnxruntime",
    "rapidocr",
    "paddleocr",
    "paddlepaddle",
    "ppzoo",
    "openvino",
    "onnxruntime",
    "numpy",
    "opencv-python",
    "opencv-contrib-python",
    "opencv-python-headless",
)


def import_rapidocr_onnxruntime() -> None:
    from rapidocr_onnxruntime import RapidOCR  # noqa: F401


def import_rapidocr() -> None:
    from rapidocr import RapidOCR  # noqa: F401  (`import rapidocr` alone does nothing until a name is asked for)


def import_paddleocr() -> None:
    from paddleocr import PaddleOCR  # noqa: F401


def import_zoo() -> None:
    from zoo import ocr  # noqa: F401


def load_rapidocr_onnxruntime(options: dict[str, Any], threads: int) -> Read:
    """1.2.3 and 1.4.4. A bare constructor: the settings of its own config.yaml."""
    from rapidocr_onnxruntime import RapidOCR

    set_onnxruntime_threads(threads)
    engine = RapidOCR()

    def read(path: str) -> list[Line]:
        found, _ = engine(path)
        return [line(polygon, text, score) for polygon, text, score in found or []]

    return read


def load_rapidocr(options: dict[str, Any], threads: int) -> Read:
    """3.x with the models inside its wheel."""
    from rapidocr import RapidOCR

    engine = RapidOCR(
        params={"EngineConfig.onnxruntime.intra_op_num_threads": threads, "Global.log_level": "error"},
    )

    def read(path: str) -> list[Line]:
        page = engine(path)
        if page.boxes is None:
            return []
        return [line(*found) for found in zip(page.boxes, page.txts, page.scores)]  # noqa: B905

    return read


def load_paddleocr(options: dict[str, Any], threads: int) -> Read:
    """2.x with MKL-DNN, its other settings as published, and models from a folder so that nothing is fetched.

    use_angle_cls is False by default in 2.x. The dictionary ppocr_keys_v1.txt lies inside the package.
    """
    from paddleocr import PaddleOCR

    engine = PaddleOCR(
        lang="ch",
        det_model_dir=options["det"],
        rec_model_dir=options["rec"],
        cls_model_dir=options["cls"],
        use_gpu=False,
        enable_mkldnn=True,
        cpu_threads=threads,
        show_log=False,
    )
    if not engine.text_detector.config.mkldnn_enabled() or not engine.text_recognizer.config.mkldnn_enabled():
        raise RuntimeError("PaddleOCR runs without MKL-DNN: the comparison would flatter the zoo")

    def read(path: str) -> list[Line]:
        found = engine.ocr(path, cls=False)[0]
        return [line(polygon, text, score) for polygon, (text, score) in found or []]

    return read


def load_zoo(options: dict[str, Any], threads: int) -> Read:
    """The zoo with the rules of the peer that it is set beside."""
    from zoo import ocr

    given = options["settings"]
    # JSON has no tuples.
    det: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given["det"].items()
    }
    settings = ocr.ReaderSettings(det=ocr.DetSettings(**det), use_cls=given["use_cls"], drop_score=given["drop_score"])
    reader = ocr.load(options["model"], settings=settings, threads=threads, engine=options["engine"])

    def read(path: str) -> list[Line]:
        return [line(found.polygon_xy, found.text, found.score) for found in reader(path).lines]

    return read


SYSTEMS: dict[str, tuple[Callable[[], None], Callable[[dict[str, Any], int], Read]]] = {
    "rapidocr_onnxruntime": (import_rapidocr_onnxruntime, load_rapidocr_onnxruntime),
    "rapidocr": (import_rapidocr, load_rapidocr),
    "paddleocr": (import_paddleocr, load_paddleocr),
    "zoo": (import_zoo, load_zoo),
}


def line(polygon: Any, text: Any, score: Any) -> Line:
    return [[float(x), float(y)] for x, y in polygon], str(text), float(score)


def set_onnxruntime_threads(threads: int) -> None:
    """Makes every later session use `threads`: rapidocr-onnxruntime 1.2.3 has no setting for it.

    Both releases hold `SessionOptions` by name in one module (utils, or utils.infer_engine since 1.4).
    """
    import onnxruntime

    class Options(onnxruntime.SessionOptions):
        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = threads

    names = [name for name in sys.modules if name.startswith("rapidocr_onnxruntime")]
    holders = [sys.modules[name] for name in names if hasattr(sys.modules[name], "SessionOptions")]
    if not holders:
        raise RuntimeError("rapidocr-onnxruntime keeps SessionOptions elsewhere now: its threads would not be limited")
    for module in holders:
        setattr(module, "SessionOptions", Options)  # noqa: B010  mypy forbids the assignment


def peak_kib() -> int:
    """The most memory this process ever held (VmHWM), in KiB. Linux."""
    with open("/proc/self/status", encoding="ascii") as status:
        for row in status:
            if row.startswith("VmHWM:"):
                return int(row.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM")


def versions() -> dict[str, str]:
    """Installed versions of the packages that matter here."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # the system does not use it
    return found


def claim_output() -> IO[str]:
    """The real standard output for replies; what libraries print goes to standard error from here on."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def reply(output: IO[str], message: dict[str, Any]) -> None:
    output.write(json.dumps(message, ensure_ascii=False) + "\n")
    output.flush()


def read_timed(read: Read, picture: str) -> dict[str, Any]:
    start = time.perf_counter()
    lines = read(picture)
    return {"seconds": time.perf_counter() - start, "lines": lines, "peak_kib": peak_kib()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--options", type=json.loads, required=True)
    parser.add_argument("--startup", metavar="PICTURE")
    arguments = parser.parse_args()
    output = claim_output()
    # Libraries count the processors they may run on, so the limit holds even where a thread setting is overlooked.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    import_system, load = SYSTEMS[arguments.system]
    start = time.perf_counter()
    import_system()
    imported = time.perf_counter()
    read = load(arguments.options, arguments.threads)
    loaded = time.perf_counter()
    ready = {"versions": versions(), "import_seconds": imported - start, "load_seconds": loaded - imported}
    if arguments.startup:
        read(arguments.startup)
        reply(output, ready | {"first_result_seconds": time.perf_counter() - start, "peak_kib": peak_kib()})
        return
    reply(output, ready)
    for row in sys.stdin:
        reply(output, read_timed(read, json.loads(row)["picture"]))


if __name__ == "__main__":
    main()
