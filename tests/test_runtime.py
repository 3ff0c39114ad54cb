"""Sessions: every engine, many threads, many sizes, and what a wrong choice says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from zoo import runtime

onnx = pytest.importorskip("onnx", reason="the dev extra makes a small network with the onnx package")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = 2 x + 1 for any [N, 3, H, W]."""
    from onnx import TensorProto, helper

    sizes = ["N", 3, "H", "W"]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["m"]), helper.make_node("Add", ["m", "one"], ["y"])],
        "line",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [
            helper.make_tensor("two", TensorProto.FLOAT, [], [2.0]),
            helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path_factory.mktemp("network") / "line é.onnx"
    path.write_bytes(model.SerializeToString())
    return path


ENGINES = ["openvino", "onnxruntime"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("streams", [1, 2])
def test_map_keeps_order_and_sizes(network: Path, engine: runtime.Engine, streams: int) -> None:
    session = runtime.load(network, engine=engine, threads=2, streams=streams)
    assert session.engine == engine
    assert session.map([]) == []
    inputs = [np.full((1, 3, 4, 5 + i % 7), i, np.float32) for i in range(40)]
    for i, (x, y) in enumerate(zip(inputs, session.map(iter(inputs)), strict=True)):
        assert y.shape == x.shape and (y == 2 * i + 1).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_one_session_is_shared_by_threads(network: Path, engine: runtime.Engine) -> None:
    session = runtime.load(network, engine=engine, threads=1)

    def ask(i: int) -> bool:
        x = np.full((1, 3, 8 + i % 3, 9), i, np.float32)
        return bool((session(x) == 2 * i + 1).all() and all((y == 2 * i + 1).all() for y in session.map([x, x])))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_a_size_that_repeats_gets_its_own_network_and_the_same_numbers(network: Path) -> None:
    session = runtime.load(network, engine="openvino", threads=1)
    assert isinstance(session, runtime.OpenVINOSession)
    for side in (512, 544, 576, 608):
        x = np.full((1, 3, side, 512), side, np.float32)
        for _ in range(session.SPECIAL_AFTER + 2):
            assert (session(x) == 2 * side + 1).all()
    assert len(session._special) == session.SPECIAL_KEPT


def test_buffers_are_given_back_only_where_no_thread_runs(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large inputs release their buffers after each run; threads that share the session must not notice."""
    monkeypatch.setattr(runtime.OpenVINOSession, "RELEASE_PIXELS", 1000)
    monkeypatch.setattr(runtime.OpenVINOSession, "SPECIAL_PIXELS", 1000)
    session = runtime.load(network, engine="openvino", threads=2)

    def ask(i: int) -> bool:
        x = np.full((1, 3, 64 + i % 4, 64), i, np.float32)
        return bool((session(x) == 2 * i + 1).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, range(300)))


@pytest.mark.parametrize("engine", ENGINES)
def test_result_is_the_callers_own(network: Path, engine: runtime.Engine) -> None:
    session = runtime.load(network, engine=engine, threads=1)
    first = session(np.zeros((1, 3, 2, 2), np.float32))
    session(np.ones((1, 3, 2, 2), np.float32))
    assert (first == 1).all()


def test_an_error_in_the_inputs_leaves_the_session_usable(network: Path) -> None:
    session = runtime.load(network, engine="openvino", threads=1, streams=1)

    def inputs():
        yield np.zeros((1, 3, 2, 2), np.float32)
        raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        session.map(inputs())
    assert (session(np.zeros((1, 3, 2, 2), np.float32)) == 1).all()


def test_torch_engine_runs_a_native_network(network: Path) -> None:
    torch = pytest.importorskip("torch", reason="the torch engine needs the train extra")
    session = runtime.load(network, engine="torch", threads=1, native=torch.nn.Identity)
    assert (session(np.ones((1, 3, 2, 2), np.float32)) == 1).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threads": 0}, "threads=0: give 1 or more"),
        ({"engine": "tensorflow"}, "engine='tensorflow'"),
        ({"precision": "int4"}, "precision='int4'"),
        ({"engine": "openvino", "device": "tpu"}, "device='tpu'"),
        ({"engine": "onnxruntime", "device": "tpu"}, "device='tpu'"),
        ({"engine": "torch"}, "no native network"),
    ],
)
def test_a_wrong_choice_says_what_would_do(network: Path, wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        runtime.load(network, **wrong)


def test_light_choice_where_openvino_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = runtime.find_spec
    monkeypatch.setattr(runtime, "find_spec", lambda name: None if name == "openvino" else real(name))
    assert runtime.choose("auto") == "onnxruntime"
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install"):
        runtime.choose("auto")
