"""Recipes: composing, checking, and what a mistake says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zoo import config
from zoo.ocr.recipe import Recipe


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_given_is_the_default() -> None:
    assert config.load(Recipe) == Recipe()


def test_base_file_and_override_in_this_order(tmp_path: Path) -> None:
    write(tmp_path, "base.yml", "model: ppocrv3_mobile\nsettings: {det: {thresh: 0.1, box_thresh: 0.2}}\n")
    path = write(tmp_path, "mine.yml", "base: base.yml\nsettings: {det: {box_thresh: 0.3, limit_side: 640}}\n")
    recipe = config.load(Recipe, path, ["settings.det.limit_side=1280"])
    assert recipe.model == "ppocrv3_mobile"
    assert recipe.settings is not None
    det = recipe.settings.det
    assert (det.thresh, det.box_thresh, det.limit_side) == (0.1, 0.3, 1280)


def test_defaults_lie_below_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.yml", "settings: {det: {thresh: 0.4}}\n")
    recipe = config.load(Recipe, path, defaults={"settings": {"det": {"thresh": 0.9, "limit_side": 736}}})
    assert recipe.settings is not None
    assert (recipe.settings.det.thresh, recipe.settings.det.limit_side) == (0.4, 736)


def test_scientific_notation_is_a_float(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.yml", "settings: {det: {thresh: 1e-3}}\n")
    recipe = config.load(Recipe, path, ["settings.det.box_thresh=2e-1"])
    assert recipe.settings is not None
    assert (recipe.settings.det.thresh, recipe.settings.det.box_thresh) == (0.001, 0.2)


MISTAKES = {
    "unknown key": (
        "settings:\n  det:\n    limit_sid: 3\n",
        [],
        ["mine.yml:3", "settings.det.limit_sid", "_side?"],
    ),
    "key of another place": ("drop_score: 0.1\n", [], ["mine.yml:1", "drop_score", "settings.drop_score?"]),
    "wrong type": ("settings:\n  drop_score: high\n", [], ["mine.yml:2", "settings.drop_score", "'high'"]),
    "out of range": ("settings:\n  det: {thresh: 7}\n", [], ["mine.yml", "settings.det", "thresh=7", "0 to 1"]),
    "unknown model": ("model: ppocrv4_mobil\n", [], ["mine.yml", "ppocrv4_mobil", "ppocrv4_mobile"]),
    "impossible pair": ("model: ppocrv5_mobile\nlang: japan\n", [], ["mine.yml", "ppocrv5_mobile", "japan"]),
    "override without value": ("", ["settings.drop_score"], ["-o settings.drop_score", "key=value"]),
    "override of an unknown key": (
        "",
        ["settings.rec.batches=3"],
        ["-o settings.rec.batches=3", "rec.batch?"],
    ),
    "override of a wrong type": ("", ["threads=many"], ["-o threads=many", "'many'"]),
    "not YAML": ("model: [\n", [], ["mine.yml", "not YAML"]),
    "a list": ("- model\n", [], ["mine.yml", "keys and values"]),
    "no such base": ("base: none.yml\n", [], ["none.yml", "no such file"]),
    "base of a base": ("base: mine.yml\n", [], ["mine.yml", "base"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(tmp_path: Path, mistake: str) -> None:
    text, overrides, parts = MISTAKES[mistake]
    path = write(tmp_path, "mine.yml", text)
    with pytest.raises(config.ConfigError) as caught:
        config.load(Recipe, path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_each_of_several_mistakes_has_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.yml", "modle: x\nthreads: -1\n")
    with pytest.raises(config.ConfigError) as caught:
        config.load(Recipe, path)
    assert len(str(caught.value).splitlines()) == 2


def test_missing_file() -> None:
    with pytest.raises(config.ConfigError, match=r"nowhere\.yml: no such file"):
        config.load(Recipe, Path("nowhere.yml"))


def test_schema_command_prints_json_schema() -> None:
    done = subprocess.run([sys.executable, "-m", "zoo", "config", "schema"], capture_output=True, text=True, check=True)
    schema = json.loads(done.stdout)
    assert schema["properties"].keys() == Recipe.model_fields.keys()
    assert "limit_side" in schema["$defs"]["DetSettings"]["properties"]
    assert schema["additionalProperties"] is False and schema["$defs"]["DetSettings"]["additionalProperties"] is False
