"""``net.py``: the recommended network, with its layers, as a program that trains it."""

from __future__ import annotations

import json

from .. import nn as tnn
from ..errors import IntertwineError
from ..relaxed import OrientationConv
from ..spaces import Grid2d
from ._networks import Strictness, SymmetryCNN
from ._parse import parse_candidate
from ._result import Finding
from ._runs import Study
from ._samples import epochs_for

_HEAD = '''"""{title}

Written by intertwine discover for {data}. It trains the network on three quarters of the samples and prints its
accuracy on the last quarter:

    python net.py
"""

import argparse

import torch
from torch import nn

import intertwine as tw

{constants}


def network():
    """The layers, from images {shape} to {classes} classes."""
{layers}


def train(net, x, y, epochs={epochs}, batch=64, lr=3e-3):
    """AdamW with a cosine schedule."""
    steps = epochs * -(-len(x) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(batch):
            images = {augment}
            loss = nn.functional.cross_entropy(net(images), y[part]){penalty}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def main():
    """Train on three quarters of the samples, and test on the last quarter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", {data_default}, help="name or path of the data")
    parser.add_argument("--folder", default={folder!r}, help="folder with the files of a named dataset")
    parser.add_argument("--fold", type=int, default=0, help="which quarter to hold out, 0 to 3")
    options = parser.parse_args()
    torch.manual_seed(options.fold)
    samples = tw.discovery.prepare(
        options.data, max_samples={samples}, load_options={{"folder": options.folder{load_options}}}
    )
    training, held_out = samples.training(options.fold), samples.held_out(options.fold)
    x, y = samples.x[training], samples.labels[training]
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True).clamp_min(1e-6)
    net = train(network(), {scaled})
    with torch.no_grad():
        scores = {test}
    accuracy = (scores.argmax(1) == samples.labels[held_out]).float().mean().item()
    print(f"accuracy on {{len(held_out)}} samples held out: {{100 * accuracy:.1f}} % (discover found {promise:.1f} %)")


if __name__ == "__main__":
    main()
'''


def program(study: Study, finding: Finding | None, promise: float) -> tuple[str, str]:
    """The text of ``net.py``, or an empty one and the reason why there is none.

    Args:
        study: the data and the candidates.
        finding: the recommended symmetry; None for the free network.
        promise: the accuracy that was found.
    """
    if study.network is not None:
        return "", "There is no net.py, since you have the code of your network."
    if study.samples.x.ndim != 4:
        return "", "There is no net.py: it is written for images only. Pass network= to compare networks of your own."
    if finding is not None and not _has_name(finding.symmetry, study.samples.shape):
        return "", f"There is no net.py, since the symmetry {finding.symmetry} is yours and has no name to write down."
    return _text(study, finding, promise), ""


def _text(study: Study, finding: Finding | None, promise: float) -> str:
    channels, height, width = shape = study.samples.shape
    classes = len(study.samples.classes)
    strictness: Strictness = (finding.verdict.strictness if finding is not None else None) or "free"
    candidate = study.candidates[finding.symmetry] if finding is not None and strictness != "free" else None
    grid = candidate.grid if candidate is not None else None
    augmented = candidate is not None and strictness == "invariant" and candidate.augmentation(layers=True) is not None
    net = SymmetryCNN(grid or Grid2d("C1"), (channels, height, width), classes, strictness if grid else "free")
    layers = _typed(net, strictness, (channels, height, width)) if grid else _plain(net)
    constants, images = [], "x[part]"
    scaled, test = "(x - mean) / std, y", "net((samples.x[held_out] - mean) / std)"
    if candidate is not None and grid is not None:
        constants.append(f'PLANE = tw.discovery.parse_candidate("{candidate.name}", {shape}).grid')
    if candidate is not None and augmented:
        # Transformations act on raw samples, so the network standardizes them itself.
        whole = f'tw.discovery.parse_candidate("{candidate.name}", {shape})'
        constants += [f"SYMMETRY = {whole}.augmentation(layers=True)", _COPIES]
        images = "SYMMETRY.moved(x[part], torch.randint(len(SYMMETRY.elements) + 1, (len(part),)))"
        scaled, test = "x, y", "sum(net(moved).softmax(1) for moved in copies(samples.x[held_out]))"
        mean, std = _statistics(study)
        layers = layers.replace("return nn.Sequential(", f"return nn.Sequential({_standardize(mean, std, grid)}")
    options = {name: value for name, value in study.samples.load_options.items() if value is not None}
    folder = options.pop("folder", None)
    text = _HEAD.format(
        title=_title(finding, strictness),
        data=_harmless(study.samples.name),
        data_default=f"default={json.dumps(study.samples.source)}" if study.samples.source else "required=True",
        folder=None if folder is None else str(folder),
        load_options="".join(f", {json.dumps(name)}: {value!r}" for name, value in options.items()),
        samples=len(study.samples),
        constants="\n".join(constants),
        shape=" x ".join(map(str, shape)),
        classes=classes,
        layers=layers,
        epochs=max(1, round(study.effort * epochs_for(len(study.samples.training(0))))),
        augment=images,
        penalty=" + tw.relaxed.relaxation_penalty(net, weight=0.01)" if strictness == "relaxed" else "",
        scaled=scaled,
        test=test,
        promise=100 * promise,
    )
    if augmented:
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("mean, std =")) + "\n"
    return text.replace("\n\n\n\n", "\n\n\n")


def _standardize(mean: str, std: str, grid: Grid2d | None) -> str:
    layer = f"tw.discovery.Standardize({mean}, {std}),"
    return f"{layer} " if grid else f"\n        {layer}"


_COPIES = '''

def copies(x):
    """The samples as they are, and moved by up to seven elements; predictions are averaged over them."""
    count = len(SYMMETRY.elements)
    numbers = (0, *range(1, count + 1, max(1, -(-count // 7))))
    return [SYMMETRY.moved(x, torch.full((len(x),), number)) for number in numbers]'''


def _harmless(name: str) -> str:
    """A name inside a docstring. The name of a folder may hold quotes, and whoever chose it must not write the program.

    >>> _harmless('a"b')
    "a'b"
    """
    return name.encode("unicode_escape").decode().replace('"', "'")


def _title(finding: Finding | None, strictness: str) -> str:
    if finding is None or strictness == "free":
        return "A network without built-in symmetry."
    return f"A network for {finding.words}: {strictness}."


def _has_name(symmetry: str, shape: tuple[int, ...]) -> bool:
    """Whether ``parse_candidate`` knows the symmetry by its name."""
    try:
        parse_candidate(symmetry, shape)
    except IntertwineError:
        return False
    return True


def _statistics(study: Study) -> tuple[str, str]:
    x = study.samples.x[study.samples.training(0)]
    mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3)).clamp_min(1e-6)
    return tuple(f"torch.tensor({[round(v, 5) for v in values.tolist()]})" for values in (mean, std))  # type: ignore[return-value]


def _plain(net: SymmetryCNN) -> str:
    parts = [*net.features.children(), *net.readout.children(), net.head]
    return "\n".join(["    return nn.Sequential(", *(f"        nn.{part}," for part in parts), "    )"])


def _typed(net: SymmetryCNN, strictness: str, shape: tuple[int, int, int]) -> str:
    """The layers with their field types, one block per line."""
    widths: list[int] = []
    lines: list[str] = []
    for layer in net.features.children():
        if isinstance(layer, tnn.Conv2d | OrientationConv):
            widths.append(len(layer.out_type.rho.atoms))
            before, size = f"h{len(widths) - 1}" if len(widths) > 1 else "x", layer.window.kernel_size[0]
            lines.append("       ")
            text = f"Conv2d({before}, h{len(widths)}, {size}, padding={size // 2}, bias=False)"
        else:
            text = f"{type(layer).__name__}(h{len(widths)}{', 2' * isinstance(layer, tnn.AvgPool2d)})"
        lines[-1] += f" tw.nn.{text},"
    names = ", ".join(f"h{k + 1}" for k in range(len(widths)))
    head = f"nn.Linear({net.head.in_features}, {net.head.out_features})"
    code = [
        f'    x = PLANE.field("{shape[0]}*trivial")',
        f'    {names} = (PLANE.field(f"{{fields}}*regular") for fields in {tuple(widths)})',
        "    features = tw.nn.Sequential(",
        *lines,
        "    )",
    ]
    if strictness == "relaxed":
        code.append(f'    features = tw.relaxed.relax(features, torch.zeros(1, *{shape}), "orientation", rank=2)')
    if strictness == "local":
        code.append(f"    return nn.Sequential(features, nn.AdaptiveAvgPool2d(2), nn.Flatten(), {head})")
    else:
        code.append(f"    return nn.Sequential(features, tw.discovery.OrbitPool(PLANE, {widths[-1]}), {head})")
    return "\n".join(code)
