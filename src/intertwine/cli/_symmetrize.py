"""``intertwine symmetrize``: the exactly equivariant network nearest to a trained one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ._audit import load_images
from ._values import parse_settings


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine symmetrize net:Net --weights net.safetensors --data digits --symmetry hflip "
        "--out twin.safetensors",
    )(symmetrize)


def symmetrize(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="package.module:factory or timm:NAME.")],
    data: Annotated[str, typer.Option(metavar="DATA", help="Images as in training; as for 'intertwine audit'.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the new weights, as safetensors.")],
    weights: Annotated[Path | None, typer.Option(metavar="FILE", help="The trained weights.")] = None,
    symmetry: Annotated[str, typer.Option(metavar="NAME", help="hflip, vflip, flips, c2, c4 or d4.")] = "hflip",
    argument: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the factory.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the files of a named data set are.")] = None,
    images: Annotated[int, typer.Option(min=1, help="How many images to match the channels on.")] = 2000,
    size: Annotated[int | None, typer.Option(min=1, help="Bring images to this size.")] = None,
    mean: Annotated[str | None, typer.Option(metavar="A,B,C", help="Normalize with these means ...")] = None,
    std: Annotated[str | None, typer.Option(metavar="A,B,C", help="... and these deviations.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time.")] = 128,
) -> None:
    """Impose a symmetry on a trained network: same architecture, exactly invariant answers.

    Writes the weights; loads into the same MODEL. Prints what it cost: the invariance error and, with labels, the
    accuracy before and after.

    Example:  intertwine symmetrize net:Net --weights net.safetensors --data digits --out twin.safetensors
    """
    from safetensors.torch import save

    from .._files import replace_file
    from ..measure import accuracy, invariance_error, load_network
    from ..measure import symmetrize as symmetrized

    if out.suffix != ".safetensors":
        raise InputError("--out", expected="a file ending in .safetensors", got=str(out), fix="Add the ending.")
    network = load_network(model, weights=weights, options=parse_settings(argument, option="--arg"))
    train, _ = load_images(data, folder, "train", images, size, network, mean, std)
    test, _ = load_images(data, folder, "test", images, size, network, mean, std)
    pictures, _ = train.as_tensors()
    found = symmetrized(network.model, pictures, symmetry, batch_size=batch_size)
    state = found.model.state_dict()
    if set(state) != set(network.model.state_dict()):
        typer.echo(
            "the statistics were restored by biases that the network did not have: load with strict=False", err=True
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, save({name: value.contiguous() for name, value in state.items()}))
    looked_at, labels = test.as_tensors()
    for title, net in (("before", network.model), ("after", found.model)):
        error = invariance_error(net, looked_at, symmetry, batch_size=batch_size)
        line = f"{title:<7} invariance error {error.mean:.3g}"
        if labels.dim() == 1:
            line += f", accuracy {accuracy(net, (looked_at, labels)):.4f}"
        typer.echo(f"{line} (n = {error.n})")
    typer.echo(f"{found.free_parameters} free numbers in {sum(v.numel() for v in state.values())}")
    for broken in found.strides.artifacts:
        typer.echo(f"warning: {broken.layer} cannot commute with {symmetry} at this size: {broken.reason}", err=True)
    typer.echo(f"written: {out}")
