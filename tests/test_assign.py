"""Arrays of weight files into networks: nothing is left over, and what is left over is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from zoo.assign import assign_by_name, assign_in_order, graph_parameters


def counted(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def test_no_parameters_and_no_arrays() -> None:
    assign_by_name(nn.ReLU(), {}, ())
    assign_in_order(nn.ReLU(), {})


def test_linear_matrices_are_transposed() -> None:
    for assign in (lambda net, arrays: assign_by_name(net, arrays, ((r"^fc\.", ""),)), assign_in_order):
        network = nn.Linear(3, 2)
        assign(network, {"fc.weight": counted(3, 2), "fc.bias": np.array([8, 9], np.float32)})
        assert network(torch.tensor([1.0, 0.0, 2.0])).tolist() == [0 + 2 * 4 + 8, 1 + 2 * 5 + 9]


def test_square_linear_matrices_are_transposed_too() -> None:
    network = nn.Linear(2, 2, bias=False)
    assign_in_order(network, {"linear_0.w_0": counted(2, 2)})
    assert network.weight.tolist() == [[0, 2], [1, 3]]


def test_batch_norm_by_name_and_in_order() -> None:
    named = {f"bn.{part}": np.full(2, i, np.float32) for i, part in enumerate(("weight", "bias", "_mean", "_variance"))}
    ordered = {f"batch_norm_0.{part}": array for part, array in zip("abcd", named.values(), strict=True)}
    for assign in (
        lambda net: assign_by_name(net, named, ((r"^bn\.", ""),)),
        lambda net: assign_in_order(net, ordered),
    ):
        norm = nn.BatchNorm2d(2)
        assign(norm)
        assert norm.running_mean is not None and norm.running_var is not None
        values = [tensor[0].item() for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var)]
        assert values == [0, 1, 2, 3]


def test_padding_row_of_an_embedding_is_zero() -> None:
    network = nn.Embedding(3, 2, padding_idx=1)
    assign_by_name(network, {"weight": np.ones((3, 2), np.float32)}, ())
    assert network.weight.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_of_two_names_for_one_tensor_the_later_holds() -> None:
    network = nn.Linear(1, 1, bias=False)
    assign_by_name(network, {"a": counted(1, 1), "b": counted(1, 1) + 7}, ((r"^[ab]$", "weight"),))
    assert network.weight.item() == 7


def test_constants_of_a_graph_are_no_parameters() -> None:
    arrays = {
        "Constant_0": np.float32(3.0).reshape(()),
        "axes": np.array([0, 1]),
        "lab.w_0": np.float32(2.0).reshape(1),
        "p2o.reshape.0": counted(1, 2, 1, 1),
    }
    assert list(graph_parameters(arrays)) == ["lab.w_0", "p2o.reshape.0"]


def test_a_folded_bias_keeps_its_values() -> None:
    network = nn.Conv2d(1, 2, 1)
    assign_in_order(network, {"conv2d_0.w_0": counted(2, 1, 1, 1), "p2o.reshape.0": counted(1, 2, 1, 1) + 5})
    assert network.bias is not None and network.bias.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"w.w_0": counted(2, 3)}, "1 parameters, the network 2.*without an array: bias"),
        ({"w.w_0": counted(2, 3), "b.b_0": counted(3), "x.b_0": counted(4)}, "arrays without a place: x.b_0"),
        ({"w.w_0": counted(3, 2), "b.b_0": counted(3)}, r"w.w_0 \(3, 2\) came where weight \(2, 3\)"),
    ],
)
def test_what_does_not_fit_in_order(arrays: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        assign_in_order(nn.Linear(2, 3), arrays)


def test_what_does_not_fit_by_name() -> None:
    with pytest.raises(ValueError, match=r"without an array: bias; arrays without a place: more; wrong shape: weight"):
        assign_by_name(nn.Linear(2, 3), {"weight": counted(3, 2), "more": counted(1)}, ())
