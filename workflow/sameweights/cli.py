"""The command line of the hub: `sameweights <verb>`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sameweights.attribution.cli import attribute_command
from sameweights.errors import UserError
from sameweights.paths import Layout
from sameweights.remote.cli import app as remote_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("attribute")(attribute_command)
app.add_typer(remote_app)


@app.command("run-cell")
def run_cell(
    run: Annotated[str, typer.Option(help="<model>/<device>/<backend>/<precision>/s<n>/r<n>")],
    specs: Annotated[Path, typer.Option(help="specs.json of the model and seed")],
    requests: Annotated[Path, typer.Option(help="requests in JSON Lines")],
    model: Annotated[Path, typer.Option(help="model folder")],
    runner: Annotated[Path, typer.Option(help="packed runner")],
    devices: Annotated[Path, typer.Option(help="registry folder of devices")],
    workdir: Annotated[Path, typer.Option(help="where local devices keep their work")],
    out: Annotated[Path, typer.Option(help="folder of the run's results")],
    environment: Annotated[str, typer.Option(help="the backend's own environment, if any")] = "",
    engine: Annotated[str, typer.Option(help="record of the run's engine, if it needs one")] = "",
) -> None:
    """Execute one run on its device and fetch its results."""
    from sameweights.engines import why_no_engine
    from sameweights.registry import DeviceEntry, Registry
    from sameweights.remote.connect import connect
    from sameweights.remote.driver import run_on_device
    from sameweights.specs import extract_spec

    spec = extract_spec(specs, run, out / "cell.json")
    device = Registry(devices, DeviceEntry).get(spec.device, run)
    transport = connect(spec.device, device, workdir, environment=environment or None)
    refusal = why_no_engine(Path(engine) if engine else None)
    record = run_on_device(
        transport,
        runner,
        out / "cell.json",
        requests,
        model,
        out,
        refusal,
        show=lambda progress: typer.echo(f"{spec.device}: {progress} ({run})"),
    )
    reason = f": {record.reason}" if record.reason else ""
    typer.echo(f"{run}: {record.outcome} {record.counts or ''}{reason}")


@app.command("build-engine")
def build_engine(
    engine: Annotated[str, typer.Option(help="<model>/<device>/<backend>/<precision>")],
    specs: Annotated[Path, typer.Option(help="specs.json of the model and a seed")],
    model: Annotated[Path, typer.Option(help="model folder")],
    runner: Annotated[Path, typer.Option(help="packed runner")],
    devices: Annotated[Path, typer.Option(help="registry folder of devices")],
    calibrations: Annotated[Path, typer.Option(help="folder of calibration texts")],
    workdir: Annotated[Path, typer.Option(help="where local devices keep their work")],
    out: Annotated[Path, typer.Option(help="record of the engine")],
    environment: Annotated[str, typer.Option(help="the backend's own environment, if any")] = "",
) -> None:
    """Build one engine on its device; the engine stays there, its record comes back."""
    from sameweights.engines import build_on_device
    from sameweights.registry import DeviceEntry, Registry
    from sameweights.remote.connect import connect

    name = engine.split("/")[1]
    device = Registry(devices, DeviceEntry).get(name, engine)
    transport = connect(name, device, workdir, environment=environment or None)
    record = build_on_device(transport, runner, specs, engine, model, calibrations, out)
    reason = f": {record['reason']}" if record["reason"] else ""
    typer.echo(f"{engine}: {record['outcome']}{reason}")


@app.command("check-cells")
def check_cells(results: Annotated[Path, typer.Argument()] = Path("results")) -> None:
    """List cells that were stopped or failed; exit 1 when one failed."""
    from sameweights.outcomes import list_outcomes

    failed = False
    for path, record in list_outcomes(results):
        if record.outcome != "complete":
            typer.echo(f"{record.outcome}: {path}: {record.reason}")
        failed |= record.outcome == "failed"
    if failed:
        raise typer.Exit(1)


@app.command("verdict")
def verdict(results: Annotated[Path, typer.Argument()] = Path("results")) -> None:
    """Print the verdict line of the last report and where the report lies."""
    path = results / "verdict.txt"
    if not path.is_file():
        raise UserError(f"{path}: no such file; run `snakemake --profile local` first")
    typer.echo(path.read_text(encoding="utf-8").strip())
    typer.echo(f"report: {(results / 'report.html').resolve()}")


@app.command("report")
def report(
    results: Annotated[Path, typer.Argument()] = Path("results"),
    form: Annotated[
        Literal["md", "none"], typer.Option("--format", help="md: summary on standard output")
    ] = "md",
    plots: Annotated[Path | None, typer.Option(help="folder for the charts, SVG and PNG")] = None,
    all_items: Annotated[
        bool, typer.Option("--all-items", help="every changed answer, as pages beside the report")
    ] = False,
    assets: Annotated[Path, typer.Option(help="template folder")] = Path("report"),
) -> None:
    """Summarize finished results for a pull request or a chat; on request, charts and all items."""
    from sameweights.report import read_context, render_markdown, write_all_items, write_plots

    layout = Layout(results)
    for path in (layout.warehouse, layout.comparison):
        if not path.is_file():
            raise UserError(f"{path}: no such file; run `snakemake --profile local` first")
    context = read_context(layout.warehouse, layout.comparison, layout.attribution)
    if form == "md":
        typer.echo(render_markdown(context, assets).strip())
    if plots is not None:
        for path in write_plots(context["charts"], plots):
            typer.echo(f"wrote {path}", err=True)
    if all_items:
        arguments = (layout.warehouse, layout.attribution, assets, layout.report_items)
        typer.echo(f"wrote {write_all_items(*arguments)}", err=True)


@app.command("schema")
def schema(out: Annotated[Path, typer.Argument()]) -> None:
    """Write the JSON Schema of config.yaml."""
    from sameweights.config import write_schema

    write_schema(out)


@app.command("matrix")
def matrix(path: Annotated[Path, typer.Argument()] = Path("results/matrix.json")) -> None:
    """List the planned matrix with every hole and its reason."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        state = f"x{len(cell['replicates'])}" if cell["state"] == "planned" else "excluded"
        typer.echo(f"{state:>8}  {cell['cell']}  {cell['reason'] or ''}".rstrip())


def main() -> None:
    """Run the command line; a UserError is one message and exit code 2, never a traceback."""
    try:
        app()
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
