"""Commands about devices: devices, progress, probe, pin, provision, clean."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sameweights.errors import UserError
from sameweights.registry import BackendEntry, DeviceEntry, Registry
from sameweights.remote.board import show_board
from sameweights.remote.connect import (
    KNOWN_HOSTS,
    connect,
    connect_ssh,
    endpoint_of,
    in_environment,
)
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.mode import check_mode, read_state
from sameweights.remote.probe import PROBES, read_facts
from sameweights.remote.provision import Environment, provision, provision_image

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="id of a device, its file name in config/devices")]
Devices = Annotated[Path, typer.Option(help="registry folder of devices")]
KnownHosts = Annotated[Path, typer.Option(help="folder of pinned host keys")]
Work = Annotated[Path, typer.Option(help="where local devices and logs lie")]

DEVICES = Path("config/devices")
BACKENDS = Path("config/backends")
WORK = Path("results/devices")


def _entry(name: str, devices: Path) -> DeviceEntry:
    return Registry(devices, DeviceEntry).get(name, "device")


@app.command("devices")
def show_devices(
    devices: Devices = DEVICES, known_hosts: KnownHosts = KNOWN_HOSTS, work: Work = WORK
) -> None:
    """List all devices, each with a live check; exit 1 when one does not answer."""
    entries = Registry(devices, DeviceEntry).entries

    def check(name: str) -> tuple[bool, str]:
        try:
            facts = read_facts(
                connect(name, entries[name], work, known_hosts), ["system", "python"]
            )
        except UserError as error:
            return False, str(error)
        python = str(facts["python"]["output"]).split("\n")[0]
        return facts["python"]["exit_code"] == 0, f"Python {python}"

    with ThreadPoolExecutor(8) as pool:
        states = dict(zip(entries, pool.map(check, entries), strict=True))
    width = max(map(len, entries), default=0)
    for name, (good, text) in states.items():
        mark = "ok    " if good else "FAILED"
        typer.echo(f"{name:{width}}  {entries[name].transport:5}  {mark}  {text}")
    if not all(good for good, _ in states.values()):
        raise typer.Exit(1)


@app.command("progress")
def show_progress(
    results: Annotated[Path, typer.Argument()] = Path("results"),
    watch: Annotated[bool, typer.Option("--watch", help="repaint until all runs ended")] = False,
) -> None:
    """Show one line a device: runs ended, items done, rate, time left, temperature, power."""
    show_board(results, watch, Console(highlight=False))


@app.command("probe")
def show_facts(
    name: Name,
    devices: Devices = DEVICES,
    known_hosts: KnownHosts = KNOWN_HOSTS,
    work: Work = WORK,
) -> None:
    """Print a device's facts, summary and marks as JSON; exit 2 out of its declared mode."""
    transport = connect(name, _entry(name, devices), work, known_hosts)
    state = read_state(transport, {*PROBES, *transport.expect})
    typer.echo(json.dumps(state, indent=1, sort_keys=True))
    check_mode(transport, state)


@app.command("pin")
def pin(
    name: Name,
    replace: Annotated[bool, typer.Option("--replace", help="accept a changed key")] = False,
    devices: Devices = DEVICES,
    known_hosts: KnownHosts = KNOWN_HOSTS,
) -> None:
    """Print and store a device's host key; every later contact must show the same one."""
    endpoint = endpoint_of(name, _entry(name, devices), known_hosts)
    fingerprint = pin_host_key(endpoint, replace)
    typer.echo(f"{name}: {fingerprint} pinned in {endpoint.known_hosts}")
    typer.echo("compare it on the device: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")


@app.command("provision")
def provision_device(
    name: Name,
    backend: Annotated[
        str | None, typer.Option(help="id of a backend with 'requirements' of its own")
    ] = None,
    requirements: Annotated[
        Path | None, typer.Option(help="lock file; the entry's 'requirements' if left out")
    ] = None,
    wheels: Annotated[Path | None, typer.Option(help="folder of wheels, for offline use")] = None,
    image: Annotated[
        Path | None, typer.Option(help="archive of the device's container image")
    ] = None,
    system_site_packages: Annotated[
        bool, typer.Option(help="let the environment see the system's packages (TensorRT)")
    ] = False,
    devices: Devices = DEVICES,
    backends: Annotated[Path, typer.Option(help="registry folder of backends")] = BACKENDS,
    known_hosts: KnownHosts = KNOWN_HOSTS,
    work: Work = WORK,
) -> None:
    """Install the locked environment, or the image, on a device; up to date: nothing to do."""
    entry = _entry(name, devices)
    work.mkdir(parents=True, exist_ok=True)
    log = work / f"{name}.provision.log"
    if entry.container is not None:
        provision_image(connect_ssh(name, entry, known_hosts), image, log)
        typer.echo(log.read_text(encoding="utf-8", errors="replace").strip())
        return
    if backend is not None:
        asked = Registry(backends, BackendEntry).get(backend, "backend")
        if asked.environment is None:
            raise UserError(f"backend {backend!r}: it has no key 'requirements'")
        entry = in_environment(entry, asked.environment, work)
        entry = entry.model_copy(update={"requirements": asked.requirements})
    lock = requirements or (Path(entry.requirements) if entry.requirements else None)
    if lock is None or entry.python is None:
        raise UserError(f"device {name!r}: keys 'requirements' and 'python' are needed")
    # The environment's own Python does not exist yet: the system's makes it.
    bare = entry.model_copy(update={"python": None, "launcher": [], "run_timeout_s": None})
    environment = Environment(entry.python, lock, wheels, system_site_packages)
    try:
        provision(connect_ssh(name, bare, known_hosts), environment, log)
    finally:
        if log.is_file():
            typer.echo(log.read_text(encoding="utf-8", errors="replace").strip())


@app.command("clean")
def clean(
    name: Name,
    everything: Annotated[
        bool, typer.Option("--all", help="models and environments too, not only results")
    ] = False,
    devices: Devices = DEVICES,
    known_hosts: KnownHosts = KNOWN_HOSTS,
) -> None:
    """Remove results, or everything, from a device; refused while a run is under way."""
    connect_ssh(name, _entry(name, devices), known_hosts).clean(everything)
    typer.echo(f"{name}: {'everything' if everything else 'results'} removed")
