"""A YAML file, at most one base, and key=value overrides become a checked, frozen recipe.

OmegaConf composes, pydantic checks. Every mistake is one line: the file (and line), the key, what came, what would do.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

Recipe = TypeVar("Recipe")


class ConfigError(ValueError):
    """One or more mistakes in a recipe, one a line."""


def load(
    schema: type[Recipe],
    path: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    defaults: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe of a YAML file with overrides such as "det.limit_side=736" applied in order.

    schema: a pydantic model or a dataclass. A file may name one `base:` file, beside it or by path; a base has none.
    defaults: values below those of the files. Numbers are read as YAML 1.2 reads them: 1e-3 is a float.
    Raises ConfigError.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from pydantic import TypeAdapter, ValidationError

    layers = _layers(path) if path else []
    changes = [_override(text) for text in overrides]
    try:
        merged = OmegaConf.merge(OmegaConf.create(dict(defaults or {})), *[data for _, data in layers], *changes)
        plain = OmegaConf.to_container(merged, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path or 'overrides'}: {str(error).splitlines()[0]}") from None
    try:
        return TypeAdapter(schema).validate_python(plain)
    except ValidationError as error:
        where = _Where([file for file, _ in layers], overrides, path)
        raise ConfigError("\n".join(_explain(schema, e, where) for e in error.errors())) from None


def json_schema(schema: type) -> dict[str, Any]:
    """The JSON Schema of a recipe, for editors that complete and check YAML."""
    from pydantic import TypeAdapter

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(schema).json_schema()}


def _layers(path: Path) -> list[tuple[Path, Any]]:
    """The base, if one is named, and the file, each as (path, configuration)."""
    data = _read(path)
    if "base" not in data:
        return [(path, data)]
    base = data.pop("base")
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base: came {base!r}; give the path of one YAML file")
    file = path.parent / base
    below = _read(file)
    if "base" in below:
        raise ConfigError(f"{file}: base: a base must not have a base itself (it is the base of {path})")
    return [(file, below), (path, data)]


def _read(path: Path) -> Any:
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        data = OmegaConf.load(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, DictConfig):
        raise ConfigError(f"{path}: came a {type(data).__name__}; give keys and values")
    return data


def _override(text: str) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    key, equals, _ = text.partition("=")
    if not equals or not key.strip() or any(not part for part in key.split(".")):
        raise ConfigError(f"-o {text}: give key=value, such as settings.det.limit_side=736")
    try:
        return OmegaConf.from_dotlist([text])
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        raise ConfigError(f"-o {text}: {' '.join(str(error).split())}") from None


class _Where:
    """Finds where a key was written: the last override or file that has it."""

    def __init__(self, files: list[Path], overrides: Sequence[str], path: Path | None) -> None:
        self.files, self.overrides, self.path = files, overrides, path

    def __call__(self, keys: tuple[str, ...]) -> str:
        dotted = ".".join(keys)
        for text in reversed(self.overrides):
            key = text.partition("=")[0]
            if key == dotted or key.startswith(f"{dotted}."):
                return f"-o {text}"
        for file in reversed(self.files):
            line = _line(file, keys)
            if line:
                return f"{file}:{line}"
        return str(self.path or "recipe")


def _line(file: Path, keys: tuple[str, ...]) -> int | None:
    """The line, from 1, at which a key path stands in a YAML file."""
    import yaml

    node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for key in keys:
        if isinstance(node, yaml.SequenceNode) and key.isdigit() and int(key) < len(node.value):
            node = node.value[int(key)]
            line = node.start_mark.line + 1
            continue
        found = [(k, v) for k, v in node.value if k.value == key] if isinstance(node, yaml.MappingNode) else []
        if not found:
            return None
        line, node = found[-1][0].start_mark.line + 1, found[-1][1]
    return line


def _explain(schema: type, error: Any, where: _Where) -> str:
    keys = tuple(str(part) for part in error["loc"])
    dotted = ".".join(keys)
    place = where(keys)
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{place}: {dotted}: no such key; {_nearest(schema, keys)}"
    if error["type"] == "missing":
        return f"{place}: {dotted}: is missing and has no default"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    came = "" if isinstance(error["input"], dict) else f"came {error['input']!r}; "
    return f"{place}: {dotted + ': ' if dotted else ''}{came}{message[:1].lower()}{message[1:]}"


def _nearest(schema: type, keys: tuple[str, ...]) -> str:
    """The valid key most like the one that came: among its neighbours first, then anywhere in the recipe."""
    every = list(_paths(json_schema(schema)))
    parent = keys[:-1]
    siblings = [path[-1] for path in every if path[:-1] == parent]
    close = difflib.get_close_matches(keys[-1], siblings, 1)
    if close:
        return f"did you mean {'.'.join((*parent, close[0]))}?"
    elsewhere = [path for path in every if path[-1] == keys[-1]]
    if elsewhere:
        return f"did you mean {'.'.join(elsewhere[0])}?"
    return f"valid keys here: {', '.join(siblings) or 'none'}"


def _paths(schema: dict[str, Any], root: dict[str, Any] | None = None) -> list[tuple[str, ...]]:
    """Every key path of a JSON Schema."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    found: list[tuple[str, ...]] = []
    for name, part in schema.get("properties", {}).items():
        found.append((name,))
        found += [(name, *rest) for rest in _paths(part, root)]
    for part in [*schema.get("anyOf", []), *schema.get("allOf", [])]:
        found += _paths(part, root)
    return found
