"""``intertwine train``: from a dataset to a trained network with a symmetry, and its audit."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ._progress import progress_bar, warnings_as_lines
from ._stopping import resuming_in
from ._values import parse_seconds

if TYPE_CHECKING:
    from torch import nn

    from ..data import ImageData, Split
    from ..models import Recipe
    from ..train import TrainConfig

_CALLER = "intertwine train"
_SUMMARY = "train.json"
_AUDITED_DETAILS = 64


class Match(StrEnum):
    """What the width of a network is chosen to match."""

    weights = "weights"
    cost = "cost"


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine train digits --model wide_resnet16_4 --group D4 --width 1 --epochs 1 "
        "--images 400 --audit-budget 2s --out run\n"
        "intertwine audit run --data digits --symmetry C4 --images 32 --budget 2s",
    )(train)


def train(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A name ('intertwine list datasets'), class folders, an archive or .npz."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the run; an interrupted run resumes there.")],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="A network ('intertwine list models') that returns class scores.")
    ] = "resnet18",
    group: Annotated[
        str, typer.Option(metavar="NAME", help="Its symmetry: hflip, C4, D4, C8, ...; none for the plain network.")
    ] = "D4",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 10,
    match: Annotated[
        Match, typer.Option(help="Choose the width to have the weights, or the cost, of the plain network.")
    ] = Match.cost,
    width: Annotated[
        float | None, typer.Option(help="The number of regular fields after the first layer, instead of --match.")
    ] = None,
    lr: Annotated[
        float, typer.Option(min=0.0, help="Highest learning rate of AdamW; it rises, then falls to 0.")
    ] = 2e-3,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Weight decay of AdamW.")] = 0.02,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per step.")] = 128,
    augment: Annotated[
        bool,
        typer.Option("--augment/--no-augment", help="Shift training images at random, by up to 1/8 of their size."),
    ] = False,
    validation: Annotated[
        float, typer.Option(min=0.01, max=0.5, help="Share of the training images to validate on.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, batches and shifts.")] = 0,
    images: Annotated[int | None, typer.Option(min=1, help="Maximum number of training images.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder with the files of a named data set.")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Resize images; needed if their sizes differ.")] = None,
    audit_budget: Annotated[
        str, typer.Option(metavar="TIME", help="Approximate time limit of the audit: 60s, 10m, 1h.")
    ] = "60s",
    as_json: Annotated[bool, typer.Option("--json", help="Print train.json instead of lines.")] = False,
) -> None:
    """Train a network that obeys a symmetry exactly, and audit it.

    Writes to --out: model.json and model.safetensors, which tw.models.trained(DIR) and 'intertwine audit DIR' load;
    audit.html, .json, .csv and .xml, for 'intertwine explore --audit DIR'; train.json with settings and accuracies; and
    the record, metrics and checkpoints of the run.

    Ctrl-C saves after the current step. The same command continues from there. When the run is finished, it trains
    nothing and prints the results again.
    """
    settings = {
        "data": data,
        "model": model,
        "group": group,
        "epochs": epochs,
        "match": match.value,
        "width": width,
        "lr": lr,
        "weight_decay": weight_decay,
        "batch_size": batch_size,
        "augment": augment,
        "validation": validation,
        "seed": seed,
        "images": images,
        "size": size,
    }
    seconds = parse_seconds(audit_budget, option="--audit-budget")
    summary = _finished(out, settings)
    if summary is not None:
        typer.echo(f"{out} is already finished, nothing to do", err=True)
    else:
        with resuming_in(out):
            summary = _run(out, settings, folder, seconds, quiet=as_json)
    if as_json:
        typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        _print(out, summary)


def _finished(out: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The summary of a finished run in this folder, if there is one; an error if it had other settings."""
    from .._untrusted import read_json

    if not (out / _SUMMARY).is_file():
        return None
    summary: dict[str, Any] = read_json(out / _SUMMARY)
    before = summary["settings"]
    if before != settings:
        changed = [
            f"{name} {before.get(name)} (now {value})" for name, value in settings.items() if before.get(name) != value
        ]
        raise InputError(
            "--out",
            expected="a new folder, or one of a run with these settings",
            got=f"{out}, a finished run with {', '.join(changed)}",
        )
    return summary


def _run(out: Path, settings: dict[str, Any], folder: Path | None, seconds: float, *, quiet: bool) -> dict[str, Any]:
    """Train, save, audit, and return the summary."""
    from .._files import replace_file
    from ..data import load
    from ..measure import accuracy
    from ..nn import to_plain
    from ..train import seed_all

    with warnings_as_lines():
        images = load(settings["data"], folder=folder, size=settings["size"]).subset(settings["images"])
        recipe = _recipe(settings, images)
        parts, held_out = _parts(images, settings["validation"], settings["seed"])
        seed_all(settings["seed"])
        network = recipe.build()
        weights = sum(p.numel() for p in network.parameters() if p.requires_grad)
        if not quiet:
            _announce(settings, images, weights)
        _fit(network, parts, held_out, settings, out, quiet=quiet)
        network.cpu().eval()
        recipe.save(network, out)
        plain = to_plain(network)
        test = parts.test if len(parts.test) else held_out
        summary = {
            "settings": settings,
            "weights": weights,
            "validation_accuracy": accuracy(plain, held_out.as_tensors()),
            "test_accuracy": accuracy(plain, parts.test.as_tensors()) if len(parts.test) else None,
            "images": {"train": len(parts.train), "validation": len(held_out), "test": len(parts.test)},
            "audit": _audit(plain, test, settings, out, seconds, quiet=quiet),
        }
        replace_file(out / _SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())
    return summary


def _recipe(settings: dict[str, Any], images: ImageData) -> Recipe:
    from ..models import MODELS, Recipe

    if images.train.labels.dim() != 1:
        raise InputError(
            _CALLER, expected="one class per image", got=f"{images.train.labels.shape[1]} factors in {images.name}"
        )
    if not MODELS[settings["model"]].classifies:
        names = ", ".join(named.name for named in MODELS.values() if named.classifies)
        raise InputError("--model", expected=f"a network that returns class scores: {names}", got=settings["model"])
    channels, height, width = images.shape
    _require_shape_kept(_audited(settings), height, width)
    scale = images.normalization
    return Recipe(
        settings["model"],
        None if settings["group"].lower() == "none" else settings["group"],
        channels=channels,
        classes=len(images.classes),
        size=(height, width),
        match=settings["match"],
        width=settings["width"],
        mean=scale.mean,
        std=scale.std,
        labels=images.classes,
    )


def _audited(settings: dict[str, Any]) -> str:
    """The symmetry to audit: that of the network, or the mirror if it has none."""
    return "hflip" if settings["group"].lower() == "none" else settings["group"]


def _require_shape_kept(name: str, height: int, width: int) -> None:
    """Check, before training, that the audit can move the images."""
    import torch

    from ..measure import parse_symmetry

    symmetry, image = parse_symmetry(name), torch.zeros(1, 1, height, width)
    if symmetry.rank == 4 and any(symmetry.apply(g, image).shape != image.shape for g in range(symmetry.order)):
        raise InputError(
            "DATA",
            expected=f"square images, whose shape {name} does not change",
            got=f"{height} x {width}",
            fix="Resize them with --size, or use --group flips.",
        )


def _parts(images: ImageData, share: float, seed: int) -> tuple[ImageData, Split]:
    """The data without some of its training images, and these, to validate on."""
    import torch

    train = images.train
    count = round(share * len(train))
    if not 0 < count < len(train):
        raise InputError(
            "DATA", expected="training images to set some aside for validation", got=f"{len(train)} of them"
        )
    aside = torch.zeros(len(train), dtype=torch.bool)
    aside[torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:count]] = True
    return replace(images, train=train.select(torch.where(~aside)[0])), train.select(torch.where(aside)[0])


def _announce(settings: dict[str, Any], images: ImageData, weights: int) -> None:
    symmetry = "no symmetry" if settings["group"].lower() == "none" else settings["group"]
    typer.echo(f"{settings['model']} with {symmetry}, {weights:,} weights, on {images}", err=True)


def _fit(
    network: nn.Module, parts: ImageData, held_out: Split, settings: dict[str, Any], out: Path, *, quiet: bool
) -> None:
    import torch

    from ..data import random_translation
    from ..train import TrainConfig, deterministic_loader, fit

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        images, labels = batch
        return torch.nn.functional.cross_entropy(model(images), labels)

    def correct(model: nn.Module, batch: Any) -> torch.Tensor:
        images, labels = batch
        return (model(images).argmax(1) == labels).double().mean()

    train: Any = parts.train.in_memory()
    if settings["augment"]:
        shift = max(1, min(parts.shape[1:]) // 8)
        train = train.with_transform(lambda image, generator: random_translation(image, generator, shift=shift))
    seed, batch_size = settings["seed"], min(settings["batch_size"], len(parts.train))
    batches = deterministic_loader(train, batch_size, seed=seed, shuffle=True)
    config: TrainConfig = TrainConfig(
        epochs=settings["epochs"],
        batch_size=batch_size,
        optimizer="adamw",
        lr=settings["lr"],
        weight_decay=settings["weight_decay"],
        schedule="cosine",
        warmup_steps=max(1, round(0.05 * settings["epochs"] * len(batches))),
        clip_norm=1.0,
        seed=seed,
        checkpoint_every=min(200, len(batches)),
        log_every=20,
    )
    fit(
        network,
        loss,
        batches,
        config,
        folder=out,
        val_loader=deterministic_loader(held_out, 256, seed=seed, shuffle=False),
        metrics={"accuracy": correct},
        loggers=[] if quiet else [_Epochs(settings["epochs"])],
        about={**settings, "origin": parts.origin},
        progress=False if quiet else None,
    )


class _Epochs:
    """Prints a line per validation."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def rewind(self, step: int) -> None:
        """Say where the run continues."""
        if step:
            typer.echo(f"continues from step {step}", err=True)

    def write(self, row: Any) -> None:
        """Print the accuracy, if the row has one."""
        if row.get("split") == "val" and row.get("val_accuracy") is not None:
            typer.echo(
                f"epoch {row['epoch'] + 1}/{self._epochs}  validation accuracy {row['val_accuracy']:.4f}  "
                f"loss {row['val_loss']:.4f}",
                err=True,
            )

    def close(self) -> None:
        """Nothing to close."""


def _audit(
    plain: nn.Module, test: Split, settings: dict[str, Any], out: Path, seconds: float, *, quiet: bool
) -> dict[str, Any]:
    """Audit the network and return its main figures."""
    from ..measure import audit

    symmetry = _audited(settings)
    with progress_bar("audit", quiet=quiet) as show:
        result = audit(
            plain,
            (test.subset(512) if len(test) > 512 else test).as_tensors(),
            symmetry,
            detail_images=_AUDITED_DETAILS,
            budget=seconds,
            name=settings["model"],
            data_name=Path(settings["data"]).name,
            folder=out,
            progress=show,
        )
    result.save(out)
    error, agreement = result.reading("invariance_error"), result.reading("agreement")
    return {"symmetry": symmetry, "invariance_error": error.value, "agreement": agreement.value}


def _print(out: Path, summary: dict[str, Any]) -> None:
    counts, audit = summary["images"], summary["audit"]
    typer.echo(f"validation accuracy  {summary['validation_accuracy']:.4f}  ({counts['validation']} images)")
    if summary["test_accuracy"] is not None:
        typer.echo(f"test accuracy        {summary['test_accuracy']:.4f}  ({counts['test']} images)")
    typer.echo(f"invariance error     {audit['invariance_error']:.2g}  ({audit['symmetry']})")
    typer.echo(f"Written to {out}: model.json, model.safetensors, audit.html, {_SUMMARY}")
