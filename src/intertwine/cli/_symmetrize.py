"""``intertwine symmetrize``: the exactly equivariant network nearest to a trained one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, StorageError
from ._audit import load_images
from ._network import load_model
from ._options import ArgOption, FolderOption, MeanOption, StdOption, TrustOption
from ._progress import warnings_as_lines
from ._values import parse_settings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..measure import Symmetrized

_CALLER = "intertwine symmetrize"
LR = 3e-4


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine symmetrize intertwine.models:plain_cnn --arg channels=1 --arg classes=10 "
        "--data digits --symmetry hflip --tune 4 --out twin.safetensors",
    )(symmetrize)


def symmetrize(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="package.module:factory, timm:NAME, a file ending in .pt2, or a folder of 'train'."
        ),
    ],
    data: Annotated[str, typer.Option(metavar="DATA", help="Training images; see 'intertwine audit'.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the new weights, as safetensors.")],
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The trained weights; default: those of the factory.")
    ] = None,
    symmetry: Annotated[
        str,
        typer.Option(metavar="NAME", help="hflip, vflip, flips, or a group of flips and quarter turns: C2, C4, D4."),
    ] = "hflip",
    width: Annotated[
        float,
        typer.Option(min=1.0, help="Channels relative to MODEL, from 1 to the order of the group: wider loses less."),
    ] = 1.0,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Refit layer by layer, or only average matched weights.")
    ] = True,
    tune: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="EPOCHS",
            help="Epochs of training towards the average of MODEL over the group; the symmetry stays exact.",
        ),
    ] = 0,
    lr: Annotated[float, typer.Option(min=0.0, help="The highest learning rate of --tune.")] = LR,
    teacher: Annotated[
        str,
        typer.Option(
            metavar="average|original",
            help="What --tune follows: MODEL averaged over the group, or as it is, if it knows one pose only.",
        ),
    ] = "average",
    label_weight: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the labels in the loss of --tune; by default none.")
    ] = 0.0,
    augment: Annotated[
        bool, typer.Option("--shift", help="Shift images at random in --tune, for networks trained with random crops.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random weights and of the image order in --tune.")] = 0,
    argument: ArgOption = None,
    trust: TrustOption = False,
    folder: FolderOption = None,
    images: Annotated[int, typer.Option(min=1, help="Maximum number of images; the refit uses up to 1000.")] = 2000,
    size: Annotated[int | None, typer.Option(min=1, help="Resize images.")] = None,
    mean: MeanOption = None,
    std: StdOption = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 128,
) -> None:
    """Impose a symmetry on a trained network: same architecture, exactly invariant outputs.

    Writes weights that load into the same MODEL with --weights, here and in 'intertwine audit', at any width. Prints
    what each network costs, its invariance error and, with labels, its accuracy: the original, its average over the
    group at run time, the symmetric network, and the same after --tune.

    --tune needs no labels: the teacher is MODEL itself, averaged over the group. Run the same command again to continue
    after an interruption; checkpoints are in a folder next to --out until the weights are written.
    """
    import torch

    from ..measure.surgery import GroupAverage

    if model.endswith(".onnx"):
        raise InputError(
            "MODEL",
            expected="package.module:factory, timm:NAME or a file ending in .pt2",
            got=model,
            fix="The weights of an ONNX file cannot be changed; use the network it was exported from.",
        )
    _require_writable(out)
    _require_filters_follow(symmetry)
    torch.manual_seed(seed)
    network = load_model(model, weights=weights, options=parse_settings(argument, option="--arg"), trust=trust)
    with warnings_as_lines():
        pictures, labels, _ = load_images(data, folder, "train", images, size, network, mean, std)
        test_images, test_labels, origin = load_images(data, folder, "test", images, size, network, mean, std)
        if tune and label_weight:
            _require_classes(network.model, pictures, labels)
        first = _symmetrized(network.model, pictures, symmetry, width, refit, batch_size, seed)
        options: dict[str, Any] = {"epochs": tune, "lr": lr, "batch_size": batch_size, "seed": seed}
        options |= {"teacher": teacher, "label_weight": label_weight}
        run = out.with_name(f"{out.stem}.tuning")
        twin = _tuned(first, pictures, labels, run, augment, **options) if tune else first
        twin.save(out)
        shutil.rmtree(run, ignore_errors=True)
        stages = [
            ("original", network.model),
            ("averaged at run time", GroupAverage(network.model, symmetry)),
            ("refitted" if refit else "merged", first.model),
            *([("tuned", twin.model)] if tune else []),
        ]
        _report(stages, test_images, test_labels, symmetry, batch_size, origin)
    typer.echo(f"{twin.free_parameters} free parameters in {sum(p.numel() for p in twin.model.parameters())}")
    typer.echo(f"written: {out}")


def _require_filters_follow(name: str) -> None:
    """Check, before reading anything, that the symmetry exists and can move filters."""
    from ..measure import parse_symmetry

    symmetry = parse_symmetry(name)
    if not symmetry.moves_filters:
        raise InputError(
            "--symmetry",
            expected="hflip, vflip, flips, C2, C4 or D4: filters follow flips and quarter turns only",
            got=f"{name} ({symmetry.action})",
            fix="'intertwine audit' measures others.",
        )


def _require_writable(out: Path) -> None:
    """Check, before doing anything slow, that the file can be written."""
    if out.suffix != ".safetensors":
        raise InputError("--out", expected="a file ending in .safetensors", got=str(out))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        probe = out.with_name(f".part-{out.name}-probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StorageError(
            "--out",
            expected="a folder that can be written to",
            got=f"{out.parent} ({error.strerror or error})",
        ) from None


def _require_classes(model: nn.Module, pictures: Tensor, labels: Tensor) -> None:
    """Check, before the refit, that labels can be used."""
    if labels.dim() != 1 or _gives_images(model, pictures):
        raise InputError(
            _CALLER,
            expected="class scores as outputs and one label per image for --label-weight",
            got="images as outputs" if labels.dim() == 1 else "other targets",
            fix="Leave out --label-weight.",
        )


def _symmetrized(
    model: nn.Module, pictures: Tensor, symmetry: str, width: float, refit: bool, batch_size: int, seed: int
) -> Symmetrized:
    """The symmetric network before tuning."""
    from ..measure import symmetrize as symmetrized

    with _progress("refit", "{task.fields[note]}") as show:
        twin = symmetrized(
            model,
            pictures,
            symmetry,
            width=width,
            refit=refit,
            batch_size=batch_size,
            seed=seed,
            progress=lambda done, total, layer: show(done, total, layer),
        )
    added = set(twin.model.state_dict()) - set(model.state_dict())
    if refit or all(name.rpartition(".")[0] in twin.windows for name in added):
        return twin
    typer.echo(
        "statistics of hidden layers are not restored: that needs biases, which the network does not have", err=True
    )
    options: dict[str, Any] = {"width": width, "refit": False, "repair": False, "batch_size": batch_size}
    return symmetrized(model, pictures, symmetry, **options)


def _tuned(
    twin: Symmetrized, pictures: Tensor, labels: Tensor, folder: Path, augment: bool, **options: Any
) -> Symmetrized:
    from ..train import tune

    data = (pictures, labels) if options["label_weight"] else pictures
    return tune(twin, data, folder=folder, augment="shift" if augment else None, **options)


def _gives_images(model: nn.Module, images: Tensor) -> bool:
    import torch

    with torch.no_grad():
        out = model.eval()(images[:1])
    return isinstance(out, torch.Tensor) and out.dim() == 4


@contextmanager
def _progress(title: str, note: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on a terminal, and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(note))
    shown = console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(title, total=None, note="")
        yield lambda done, total, text: bar.update(task, completed=done, total=total, note=text)


def _report(
    stages: list[tuple[str, nn.Module]], images: Tensor, labels: Tensor, symmetry: str, batch_size: int, origin: str
) -> None:
    from ..measure import accuracy, equivariance_error, invariance_error

    dense = _gives_images(stages[0][1], images)
    scored = labels.dim() == 1 and not dense
    kind = "equivariance error" if dense else "invariance error"
    typer.echo(f"{'':<20} {'accuracy  ' if scored else ''}{kind}  parameters  multiply-adds")
    costs = []
    for title, net in stages:
        error = (equivariance_error if dense else invariance_error)(net, images, symmetry, batch_size=batch_size)
        score = f"{accuracy(net, (images, labels), batch_size=batch_size):<10.4f}" if scored else ""
        size = sum(p.numel() for p in net.parameters())
        costs.append(_multiply_adds(net, images[:1]))
        line = f"{title:<20} {score}{error.mean:<{len(kind)}.3g}  {size:<10,}  {costs[-1]:,}"
        typer.echo(line.rstrip())
    if costs[2] > costs[1]:  # the cost grows with the square of the width, and with larger windows
        typer.echo("this width costs more than averaging at run time, which loses nothing: choose a smaller one")
    typer.echo(f"on {len(images)} images of {origin}")


def _multiply_adds(net: nn.Module, image: Tensor) -> int:
    """How many multiplications one image takes."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net.eval()(image)
    return int(counter.get_total_flops()) // 2
