"""``intertwine audit``: how symmetric is this network?"""

from __future__ import annotations

import json
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ._app import CHECK_FAILED
from ._experiment import Engine
from ._network import load_model
from ._options import DATA_HELP, AddressOption, ArgOption, FolderOption, MeanOption, StdOption, TrustOption
from ._progress import progress_bar, warnings_as_lines
from ._stopping import resuming_in
from ._values import parse_seconds, parse_settings

if TYPE_CHECKING:
    from torch import Tensor

    from ..measure import Audit, Gate, Network, Symmetry

_CALLER = "intertwine audit"


class Part(StrEnum):
    """The part of a data set."""

    test = "test"
    train = "train"
    all = "all"


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine audit intertwine.models:plain_cnn --arg channels=1 --arg classes=10 --data digits "
        "--symmetry hflip --symmetry D4 --images 100 --out audit",
    )(audit)


def audit(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="package.module:factory, timm:NAME, a file ending in .pt2 or .onnx, or a folder of 'train'.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help=DATA_HELP),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="safetensors or a torch file of tensors; nothing is unpickled.")
    ] = None,
    symmetry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="hflip, vflip, flips; a group such as C4 (turns by 90°), D4 (turns and flips), C8, SO(2); "
            "or a space such as Grid2d(D4). May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write audit.json, .csv, .xml and .html here; an interrupted audit resumes."),
    ] = None,
    fail_above: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=BOUND", help="Exit code 1 if an error is above this, e.g. invariance=0.1."),
    ] = None,
    fail_below: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=BOUND", help="Exit code 1 if a share is below this, e.g. agreement=0.9."),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="A B", help="Compare two audits written with --out.")
    ] = None,
    argument: ArgOption = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="NAME|NUMBER", help="The output to look at, if there are several; numbers begin at 0."),
    ] = None,
    trust: TrustOption = False,
    folder: FolderOption = None,
    part: Annotated[Part, typer.Option(help="The part of the data set to use.")] = Part.test,
    images: Annotated[int, typer.Option(min=1, help="Maximum number of images.")] = 512,
    size: Annotated[int | None, typer.Option(min=1, help="Resize images; default: the size of the model.")] = None,
    mean: MeanOption = None,
    std: StdOption = None,
    detail_images: Annotated[
        int, typer.Option(min=1, help="Maximum number of them for layers, shifts, channels and barriers.")
    ] = 384,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Ignore the labels of the data.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per batch; halved if memory runs out.")] = 64,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="Approximate time limit: 60s, 10m, 1h.")] = None,
    engine: Annotated[Engine, typer.Option(help="ray splits the images across processes or machines.")] = Engine.local,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of parts, with --engine ray; default: one per core.")
    ] = None,
    address: AddressOption = None,
    all_layers: Annotated[
        bool, typer.Option("--all-layers", help="Print a row for every layer instead of one per block.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print audit.json.")] = False,
) -> None:
    """Measure how symmetric a trained network is, as a whole and at each layer, and what breaks the symmetry.

    Exit code 1 if a gate (--fail-above, --fail-below) is missed.
    """
    if compare is not None:
        _compare(*compare, as_json=as_json)
        return
    if model is None or data is None:
        raise InputError(
            _CALLER,
            expected="MODEL and --data, or --compare A B",
            got="no " + " and no ".join(name for name, value in (("MODEL", model), ("--data", data)) if value is None),
            fix="See 'intertwine audit --help'.",
        )
    import torch

    from ..measure import Note
    from ..measure import audit as measure_audit

    symmetries = _symmetries(symmetry or ["hflip"])
    gates = _gates(fail_above, fail_below)
    seconds = None if budget is None else parse_seconds(budget, option="--budget")
    torch.manual_seed(0)  # without --weights, the network is the same every time, and its audit can resume
    settings = parse_settings(argument, option="--arg")
    network = load_model(model, weights=weights, options=settings, output=output, trust=trust)
    with resuming_in(out), progress_bar("audit", quiet=as_json) as show, warnings_as_lines():
        pictures, labels, origin = load_images(data, folder, part.value, images, size, network, mean, std)
        result = measure_audit(
            network.model,
            pictures if no_labels or labels.dim() != 1 else (pictures, labels),
            symmetries,
            max_images=images,
            detail_images=detail_images,
            batch_size=batch_size,
            budget=seconds,
            name=model,
            data_name=origin,
            folder=out,
            progress=show,
            engine=engine.value,
            workers=workers,
            address=address,
        )
    result.notes += [Note("network", text) for text in network.notes]
    judged = []
    with suppress(InputError):  # a gate on something not measured: raised below, after printing the results
        judged = result.judge(gates)
    if out is not None:
        result.save(out, gates=gates if judged else ())
    _print(result, judged, as_json=as_json, out=out, all_layers=all_layers)
    result.judge(gates)
    if not all(kept for _, _, kept in judged):
        raise typer.Exit(CHECK_FAILED)


def _symmetries(names: list[str]) -> list[Symmetry]:
    """Check, before reading anything, that these are symmetries of images."""
    from ..measure import parse_symmetry

    symmetries = [parse_symmetry(name) for name in names]
    for symmetry in symmetries:
        if symmetry.rank != 4:
            raise InputError(
                "--symmetry",
                expected="a symmetry of images, such as hflip, C4 or D4",
                got=f"{symmetry.name} ({symmetry.action})",
                fix="intertwine.measure in Python takes signals, volumes, sets and vectors.",
            )
    return symmetries


def _gates(above: list[str] | None, below: list[str] | None) -> list[Gate]:
    from ..measure import METRICS, Gate

    gates = []
    for option, texts, better in (("--fail-above", above, "lower"), ("--fail-below", below, "higher")):
        for text in texts or []:
            gate = Gate.parse(text)
            if METRICS[gate.metric].better != better:
                other = "--fail-below" if better == "lower" else "--fail-above"
                raise InputError(
                    option,
                    expected=f"a metric where {better} is better",
                    got=gate.metric,
                    fix=f"Use {other} {text}.",
                )
            gates.append(gate)
    return gates


def load_images(
    data: str,
    folder: Path | None,
    part: str,
    images: int,
    size: int | None,
    network: Network,
    mean: str | None,
    std: str | None,
) -> tuple[Tensor, Tensor, str]:
    """Images prepared for the network, their labels, and a description of their source.

    Size and normalization are the given ones, or those of the network, or none.
    """
    import torch

    from ..data import Normalization, load

    if (mean is None) != (std is None):
        raise InputError(_CALLER, expected="--mean and --std together", got="one of them")
    scale = None
    if mean is not None and std is not None:
        scale = Normalization(_numbers("--mean", mean), _numbers("--std", std))
    elif network.mean is not None and network.std is not None:
        scale = Normalization(network.mean, network.std)
    image_data = load(data, folder=folder, size=size if size is not None else network.size)
    train, test = image_data.train, image_data.test
    requested = {"test": [test], "train": [train], "all": [train, test]}[part]
    splits = [split for split in requested if len(split)] or [split for split in (train, test) if len(split)][:1]
    if not splits:
        raise InputError("--data", expected="images", got=f"none in {data}")
    parts, remaining = [], images
    for split in splits:
        if remaining > 0:
            chosen = split.subset(remaining) if remaining < len(split) else split
            parts.append((chosen if scale is None else chosen.normalized(scale)).as_tensors())
            remaining -= len(chosen)
    skipped = f", {len(image_data.skipped)} files could not be read" if image_data.skipped else ""
    pictures, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return pictures, labels, f"{data}, {part} images{skipped}"


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(option, expected="one number per channel, such as 0.5,0.5,0.5", got=repr(text)) from None


def _print(
    result: Audit,
    judged: list[tuple[Gate, Any, bool]],
    *,
    as_json: bool,
    out: Path | None,
    all_layers: bool,
) -> None:
    if as_json:
        gates = [
            {"metric": gate.metric, "bound": gate.bound, "symmetry": r.symmetry, "value": r.value, "kept": kept}
            for gate, r, kept in judged
        ]
        typer.echo(json.dumps({**result.to_dict(), "gates": gates}, indent=2, ensure_ascii=False))
        return
    from .._console import wide_console
    from ..report import audit_table

    wide_console().print(audit_table(result, judged, all_layers=all_layers))
    if out is not None:
        typer.echo(f"Written to {out}: audit.html, audit.json, audit.csv, audit.xml")


def _compare(first: Path, second: Path, *, as_json: bool) -> None:
    from .._console import wide_console
    from ..measure import read_audit
    from ..report import audit_differences

    a, b = read_audit(first), read_audit(second)
    rows, table = audit_differences(a, b)
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        wide_console().print(table)
