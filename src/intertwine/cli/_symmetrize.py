"""``intertwine symmetrize``: the exactly equivariant network nearest to a trained one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, StorageError
from ._audit import load_images, warnings_as_lines
from ._values import parse_settings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..measure import Symmetrized

_CALLER = "intertwine symmetrize"


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine symmetrize intertwine.models:plain_cnn --arg channels=1 --arg classes=10 "
        "--data digits --symmetry hflip --tune 4 --lr 0.01 --out twin.safetensors",
    )(symmetrize)


def symmetrize(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="package.module:factory, timm:NAME, or a file ending in .pt2.")
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
    tune: Annotated[
        int, typer.Option(min=0, metavar="EPOCHS", help="Epochs of fine-tuning with tied weights; needs labels.")
    ] = 0,
    lr: Annotated[float, typer.Option(min=0.0, help="Initial learning rate of --tune.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random weights and of the image order in --tune.")] = 0,
    argument: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the factory.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Load a file that the checks refuse; it may then run code on this machine.")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="Folder with the files of a named data set.")] = None,
    images: Annotated[int, typer.Option(min=1, help="Maximum number of images for matching and tuning.")] = 2000,
    size: Annotated[int | None, typer.Option(min=1, help="Resize images.")] = None,
    mean: Annotated[str | None, typer.Option(metavar="A,B,C", help="Normalize with these means ...")] = None,
    std: Annotated[str | None, typer.Option(metavar="A,B,C", help="... and these standard deviations.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 128,
) -> None:
    """Impose a symmetry on a trained network: same architecture, exactly invariant outputs.

    Writes weights that load into the same MODEL. Prints the invariance error and, with labels, the accuracy before,
    after, and after --tune.
    """
    import torch

    from ..measure import load_network

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
    network = load_network(model, weights=weights, options=parse_settings(argument, option="--arg"), trust=trust)
    with warnings_as_lines():
        pictures, labels, _ = load_images(data, folder, "train", images, size, network, mean, std)
        test_images, test_labels, origin = load_images(data, folder, "test", images, size, network, mean, std)
        twin, stages = _symmetrized_and_tuned(network.model, pictures, labels, symmetry, tune, lr, batch_size, seed)
        _write(out, twin.model, prefix="program." if model.endswith(".pt2") else "")
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


def _symmetrized_and_tuned(
    model: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    symmetry: str,
    epochs: int,
    lr: float,
    batch_size: int,
    seed: int,
) -> tuple[Symmetrized, list[tuple[str, nn.Module]]]:
    """The final network, and all stages up to it with their names."""
    from ..measure import tune

    if epochs and (labels.dim() != 1 or _gives_images(model, pictures)):
        raise InputError(
            _CALLER,
            expected="class scores as outputs and one label per image for --tune",
            got="images as outputs" if labels.dim() == 1 else "other targets",
            fix="Leave out --tune.",
        )
    twin = _symmetrized(model, pictures, symmetry, batch_size)
    stages = [("before", model), ("symmetrized", twin.model)]
    if epochs:
        with _progress(epochs * len(pictures)) as show:
            twin = tune(twin, (pictures, labels), epochs=epochs, lr=lr, batch_size=batch_size, seed=seed, progress=show)
        stages.append(("tuned", twin.model))
    return twin, stages


def _gives_images(model: nn.Module, images: Tensor) -> bool:
    import torch

    with torch.no_grad():
        out = model.eval()(images[:1])
    return isinstance(out, torch.Tensor) and out.dim() == 4


def _symmetrized(model: nn.Module, pictures: Tensor, symmetry: str, batch_size: int) -> Symmetrized:
    from ..measure import symmetrize as symmetrized

    twin = symmetrized(model, pictures, symmetry, batch_size=batch_size)
    if set(twin.model.state_dict()) == set(model.state_dict()):
        return twin
    typer.echo(
        "statistics of hidden layers are not restored: that needs biases, which the network does not have", err=True
    )
    return symmetrized(model, pictures, symmetry, matching=twin.matching, repair=False, batch_size=batch_size)


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("loss {task.fields[loss]:.3f}"))
    shown = console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("tune", total=total, loss=float("nan"))
        yield lambda seen, loss: bar.update(task, completed=seen, loss=loss)


def _write(out: Path, model: nn.Module, *, prefix: str) -> None:
    from safetensors.torch import save

    from .._files import replace_file

    # Clone, because the format refuses tensors that share memory. Weights of an exported program get back the names
    # that they have in the original network.
    state = {name.removeprefix(prefix): value.detach().cpu().clone() for name, value in model.state_dict().items()}
    replace_file(out, save(state))


def _report(
    stages: list[tuple[str, nn.Module]], images: Tensor, labels: Tensor, symmetry: str, batch_size: int, origin: str
) -> None:
    from ..measure import accuracy, equivariance_error, invariance_error

    dense = _gives_images(stages[0][1], images)
    for title, net in stages:
        error = (equivariance_error if dense else invariance_error)(net, images, symmetry, batch_size=batch_size)
        line = f"{title:<12} {'equivariance' if dense else 'invariance'} error {error.mean:<9.3g}"
        if labels.dim() == 1 and not dense:
            line += f" accuracy {accuracy(net, (images, labels), batch_size=batch_size):.4f}"
        typer.echo(line.rstrip())
    typer.echo(f"on {len(images)} images of {origin}")
