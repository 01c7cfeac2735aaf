# What every phase shares: the validated configuration, the matrix, the layout of the results.
# The only rule file with functions; each is a look-up, the logic is in the package.
import sys
from pathlib import Path

from sameweights.cells import Registries, describe_matrix, plan_matrix
from sameweights.config import describe_questions, load_config
from sameweights.errors import UserError
from sameweights.outcomes import forget_failed_runs
from sameweights.paths import Layout
from sameweights.sources import assets_digest, source_digest
from sameweights.specs import find_manifest

try:
    CONFIG = load_config(config)
    REGISTRIES = Registries.read(Path("config"))
    MATRIX = plan_matrix(CONFIG, REGISTRIES, Path("config/capabilities.yaml"))
except UserError as error:
    sys.exit(f"error: {error}")

RENDERERS = [f"sameweights/{name}.py" for name in ("requests", "tasks", "tokenizer")]
LAYOUT = Layout(Path(CONFIG.results))
RUNS = MATRIX.runs


def slot_of(device):
    plain = device.replace("-", "_").replace(".", "_")
    return f"slot_{plain}"


wildcard_constraints:
    model=r"[^/]+",
    seed=r"\d+",
    converter=r"[a-z][a-z0-9_]*",
    precision=r"[^/]+",
    device=r"[^/]+",
    backend=r"[^/]+",
    run=r"[^/]+/[^/]+/[^/]+/[^/]+/s\d+/r\d+",


if workflow.is_main_process:
    for cell in MATRIX.cells:
        if cell.reason:
            print(f"excluded: {cell.id}: {cell.reason}", file=sys.stderr)

if workflow.is_main_process and not workflow.dryrun:
    # A failure is no measurement: forget it, so that this invocation tries the cell again.
    forget_failed_runs(LAYOUT.results, RUNS)

DEVICES = sorted({cell.device for cell in MATRIX.planned})
for name in DEVICES:
    # An undeclared limit would be unlimited: each device serves as many runs as it has slots.
    slots = REGISTRIES.devices.get(name, "devices").slots
    workflow.global_resources.setdefault(slot_of(name), slots)


def cell_of(wildcards):
    return MATRIX.find_run(wildcards.run)[0]


def takes_slot(device):
    """Return a resource function: 1 for runs on this device, 0 for others."""
    return lambda wildcards: int(cell_of(wildcards).device == device)


def builds_on(device):
    """Return a resource function: 1 for an engine of this device, 0 for others."""
    return lambda wildcards: int(wildcards.device == device)


BUILD_SLOTS = {slot_of(name): builds_on(name) for name in DEVICES}
SLOTS = {slot_of(name): takes_slot(name) for name in DEVICES}


def of_cell(path_of):
    """Turn a path by model and seed into an input function of a run."""
    return lambda wildcards: path_of(cell_of(wildcards).model, cell_of(wildcards).seed)


def backend_of(wildcards):
    return REGISTRIES.backends.get(cell_of(wildcards).backend, "backends")


def engine_of(wildcards):
    """Return the record of the engine that a run needs, if any."""
    cell = cell_of(wildcards)
    name = f"{cell.model}/{cell.device}/{cell.backend}/{cell.precision}"
    return [LAYOUT.engine(name)] if backend_of(wildcards).engine else []


def weights_of(wildcards):
    """Return the folder that a run loads: its backend's artefact, or the model's."""
    cell = cell_of(wildcards)
    return LAYOUT.weights(cell.model, backend_of(wildcards).artifact, cell.precision)


def engine_weights(wildcards):
    """Return the folder that an engine is built from."""
    artifact = REGISTRIES.backends.get(wildcards.backend, "backends").artifact
    return LAYOUT.weights(wildcards.model, artifact, wildcards.precision)


def weights_manifests(model, seed):
    """Return the manifests of all that the runs of one model and seed load."""
    cells = [c for c in MATRIX.planned if c.model == model and str(c.seed) == seed]
    return sorted({find_manifest(LAYOUT, cell, REGISTRIES) for cell in cells})


def locks_of_backends():
    """Return the lock files of all planned backends: another lock is another cell."""
    names = {cell.backend for cell in MATRIX.planned}
    return sorted(
        filter(
            None, {REGISTRIES.backends.get(n, "backends").requirements for n in names}
        )
    )


def environment_folder(name):
    return str(LAYOUT.environment(name)) if name else ""


def environment_markers(name):
    return [ancient(LAYOUT.environment_marker(name))] if name else []


def converter_environment(converter):
    """Return the environment of the backends that load this converter's output."""
    names = {
        b.environment
        for b in REGISTRIES.backends.entries.values()
        if b.artifact == converter
    }
    return min(filter(None, names), default=None)


def option(name, value):
    """Return an option and its value as words of a command line; no words without a value."""
    return [name, value] if value else []


def local_environment(device, backend):
    """Return the environment of a backend on this machine; a remote device has its own."""
    local = REGISTRIES.devices.get(device, "devices").transport == "local"
    environment = REGISTRIES.backends.get(backend, "backends").environment
    return environment_markers(environment) if local else []


def environment_of(wildcards):
    return local_environment(cell_of(wildcards).device, cell_of(wildcards).backend)


def engine_environment(wildcards):
    return local_environment(wildcards.device, wildcards.backend)


def files_of_runs(name, model=None, seed=None):
    """Return one file of every run, or of the runs of one model and seed."""
    return [
        LAYOUT.run(run) / name
        for run in RUNS
        if model is None or run.startswith(f"{model}/") and f"/s{seed}/" in run
    ]


MODELS_SEEDS = [(model, seed) for model in CONFIG.models for seed in CONFIG.seeds]
