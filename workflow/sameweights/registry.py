"""Registries: one YAML file an entry, file name = id, closed schemas.

`config/models`, `config/devices`, `config/backends` and `config/precisions` are read into the
entries below. An unknown key is an error that says which key was probably meant.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sameweights.errors import UserError, did_you_mean

ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Ids become folder names on the hub and on devices, so they are short and plain."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Closed(BaseModel):
    """Base of everything read from YAML: unknown keys are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WheelSource(Closed):
    """One file inside a package on the Python package index, pinned by version and SHA-256."""

    kind: Literal["wheel"]
    package: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    version: str = Field(pattern=r"^[A-Za-z0-9.!+_-]+$")
    member: str
    member_sha256: Sha256


class HubSource(Closed):
    """A Hugging Face repository at a pinned commit (40 hex digits, never a branch)."""

    kind: Literal["hub"]
    repo: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")


class FolderSource(Closed):
    """A local folder in Hugging Face layout (config.json, *.safetensors, tokenizer.json)."""

    kind: Literal["folder"]
    path: str


class ModelEntry(Closed):
    """Where a model's files come from, and how prompts are put to it."""

    description: str
    source: WheelSource | HubSource | FolderSource = Field(discriminator="kind")
    chat_template: bool = False
    license: str | None = None


class Container(Closed):
    """An image by content, and what it may see: its name's digest, or the image id itself."""

    image: str = Field(pattern=r"^([a-z0-9][a-z0-9._/:-]*@)?sha256:[0-9a-f]{64}$")
    engine: str = Field(default="docker", pattern=r"^(/[A-Za-z0-9._/-]+/)?(docker|podman)$")
    gpu: Literal["none", "nvidia", "jetson"] = "none"

    @property
    def kind(self) -> str:
        """docker or podman, without the folder."""
        return Path(self.engine).name


class DeviceEntry(Closed):
    """One machine in one fixed power, clock and instruction-set mode.

    `env` is set before a backend is imported; `requires_cpu_flags` are looked up in the CPU of a
    local device when the matrix is planned, so that an impossible cap is a listed exclusion.

    For `transport: ssh`: `host` is an alias of the SSH configuration or [user@]name; `workdir`
    and a `python` with a slash are relative to the home folder and to `workdir`; `launcher`
    stands before the Python (`[caffeinate, -i]`); `container` is the image in which `python` runs,
    in place of every environment; `system_python` runs the transport's own side; `requirements` is
    the lock file for `python`, installed by `sameweights provision`; `run_timeout_s` ends a run
    that hangs.
    `priority`: runs of a device with a higher one start first (the slowest should).
    `expect` maps a probe to the pattern its output must show before a run.
    """

    description: str
    note: str | None = None
    transport: Literal["local", "ssh"] = "local"
    host: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$")
    ssh_config: str | None = None
    workdir: str | None = None
    system_python: str = "python3"
    python: str | None = None
    requirements: str | None = None
    launcher: list[str] = Field(default_factory=list)
    container: Container | None = None
    run_timeout_s: float | None = Field(default=None, gt=0)
    expect: dict[str, str] = Field(default_factory=dict)
    accelerator: Literal["cpu", "cuda", "mps", "metal"] = "cpu"
    arch: Literal["x86_64", "aarch64", "arm64"] = "x86_64"
    compute_capability: str | None = None
    labels: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    threads: int = Field(default=1, ge=1)
    slots: int = Field(default=1, ge=1)
    priority: int = Field(default=0, ge=0, le=100)
    requires_cpu_flags: list[str] = Field(default_factory=list)

    @property
    def run_env(self) -> dict[str, str]:
        """The environment of a run; an image is part of it, and so of the cell's identity."""
        image = {"SAMEWEIGHTS_IMAGE": self.container.image} if self.container else {}
        return {**self.env, **image}


class BackendEntry(Closed):
    """Software that executes the model: the adapter's name and the options that it gets.

    `requirements` is the lock file of an environment of its own, `envs/<its name>` on a device;
    without it the device's own Python runs. `artifact` names the converter whose output it loads
    in place of the model's folder. `engine` says that its device builds an engine first.
    """

    description: str
    adapter: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    options: dict[str, Any] = Field(default_factory=dict)
    requirements: str | None = Field(
        default=None, pattern=r"^config/requirements/[a-z0-9][a-z0-9.-]*\.txt$"
    )
    artifact: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_]*$")
    engine: bool = False

    @property
    def environment(self) -> str | None:
        """Name of the environment it runs in, None for the device's own."""
        return Path(self.requirements).stem if self.requirements else None


class PrecisionEntry(Closed):
    """A recipe of weight, activation and KV formats.

    `canary_tolerance_nats` bounds the mean absolute difference per token between this recipe
    and the fp32 reference on the canary's texts.
    """

    description: str
    recipe: dict[str, Any]
    canary_tolerance_nats: float = Field(gt=0)


Entry = TypeVar("Entry", bound=Closed)


class Registry(Generic[Entry]):
    """The entries of one folder by id; looking up an unknown id says what there is."""

    def __init__(self, folder: Path, entry_type: type[Entry]) -> None:
        self.folder = folder
        self.entries: dict[str, Entry] = {}
        if not folder.is_dir():
            raise UserError(f"{folder}: no such registry folder")
        for path in sorted(folder.glob("*.yaml")):
            if not re.match(ID_PATTERN, path.stem):
                raise UserError(f"{path}: an entry's file name must match {ID_PATTERN}")
            self.entries[path.stem] = read_entry(path, entry_type)

    def get(self, name: str, where: str) -> Entry:
        """Return an entry; raises UserError that starts with `where` for an unknown id."""
        if name not in self.entries:
            hint = did_you_mean(name, self.entries)
            raise UserError(f"{where}: {name!r} is not in {self.folder}{hint}")
        return self.entries[name]


def read_yaml(path: Path) -> Any:
    """Parse a YAML file with the safe loader; raises UserError naming file and line."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read as YAML: {error}") from error


def read_entry(path: Path, entry_type: type[Entry]) -> Entry:
    """Read one registry file into its closed schema."""
    return validate(read_yaml(path), entry_type, str(path))


def validate(value: Any, schema: type[Entry], where: str) -> Entry:
    """Check a parsed value against a closed schema; every problem is listed by key.

    Raises UserError with one line a problem: file, key, what was found, what is allowed.
    """
    if not isinstance(value, dict):
        raise UserError(f"{where}: a mapping is needed, found {type(value).__name__}")
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        lines = [_describe(problem, schema, where) for problem in error.errors()]
        raise UserError("\n".join(lines)) from None


def _describe(problem: Any, schema: type[BaseModel], where: str) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        allowed = _allowed_keys(schema, problem["loc"][:-1])
        return f"{where}: unknown key {key!r}{did_you_mean(str(problem['loc'][-1]), allowed)}"
    if problem["type"] == "missing":
        return f"{where}: key {key!r} is missing"
    return f"{where}: key {key!r}: found {problem['input']!r}: {problem['msg']}"


def _allowed_keys(schema: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Walk the schema to the model at `location` (unions contribute all their members' keys)."""
    models: list[type[BaseModel]] = [schema]
    for step in location:
        found = []
        for model in models:
            field = model.model_fields.get(str(step))
            if field is not None:
                found += _models_in(field.annotation)
        # Indexes of lists and tags of unions are steps without a field of their own.
        models = found or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for arg in getattr(annotation, "__args__", ()) for m in _models_in(arg)]
