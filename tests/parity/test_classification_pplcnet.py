"""PP-LCNet against PaddleClas."""

import torch

from tests.parity import cases
from zoo.classification import pplcnet


def test_pplcnet_x1_0() -> None:
    case = cases.load("classification", "pplcnet_x1_0")
    network = pplcnet.PPLCNet(scale=1.0, classes=100)
    pplcnet.load_paddle(network, case.state())
    with torch.no_grad():
        logits = network.eval()(case.inputs()["image"])
    cases.assert_output(logits, case.outputs["logits"], "logits")
