"""The turn tab: a plain and an equivariant network look at a picture while it turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from ..._checked import describe
from ..._files import replace_file
from ..._untrusted import read_tensors
from ...errors import InputError
from ...groups import Cyclic
from ...measure import accuracy
from ...models import GroupCNN, plain_cnn
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..draw._pixels import gray_pixels, signed_pixels
from ._pictures import SIDE, digits, read_picture, turned, whole
from ._training import UNWATCHED, Training, not_trained

ORDER = 8
"""The equivariant network commutes with turns by 360 / ORDER degrees."""

STEPS = 276
"""Of each network: twelve epochs."""

NAMES = ("plain", "equivariant")
_BATCH = 64
_MAPS = 4
_CURVE = range(0, 361, 5)  # degrees
_RELUS = {"plain": ("2", "6", "10"), "equivariant": ("features.2", "features.6", "features.10")}
_CALLER = "turn"


class Turning:
    """The two networks of the tab in the server.

    Args:
        steps: the number of training steps of each network.
        unwatched: training stops if nobody asks about it for this many seconds.
    """

    def __init__(self, *, steps: int = STEPS, unwatched: float = UNWATCHED) -> None:
        self.training = Training("train-turn", steps=steps, total=len(NAMES) * steps, unwatched=unwatched)

    def state(self) -> dict[str, Any]:
        """Whether there are networks, and the progress of their training."""
        return self.training.state()

    def start(self) -> dict[str, Any]:
        """Start training, unless there are networks or they are being trained."""
        self.training.start()
        return self.state()

    def answer(
        self, picture: Any, angle: Any, layer: Any = 2, gone: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The result of :func:`turn_answer`, computed in a separate process."""
        return self.training.ask("turn", {"picture": picture, "angle": angle, "layer": layer}, gone)

    def curve(self, picture: Any, gone: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """The result of :func:`turn_curve`, computed in a separate process."""
        return self.training.ask("turn-curve", {"picture": picture}, gone)


class _Progress:
    """A logger that reports the number of steps done, after those of the networks before."""

    def __init__(self, tell: Callable[[int], None], before: int) -> None:
        self._tell, self._before = tell, before

    def rewind(self, step: int) -> None:
        self._tell(self._before + step)

    def write(self, row: Mapping[str, Any]) -> None:
        self._tell(self._before + int(row["step"]))

    def close(self) -> None:
        pass


def _new(name: str) -> nn.Module:
    return (
        plain_cnn(1, 10, widths=(16, 24, 32)) if name == "plain" else GroupCNN(Cyclic(ORDER), 1, 10, widths=(8, 8, 16))
    )


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


def train_turn(folder: Path, steps: int, tell: Callable[[int], None]) -> None:
    """Train both networks on the same upright digits, in the same order, and save them in the folder.

    It uses one thread, for the rest of the process: such small networks gain nothing from more, and on a busy machine
    threads that wait for each other take ten times as long.
    """
    from safetensors.torch import save

    torch.set_num_threads(1)
    config = TrainConfig(max_steps=steps, batch_size=_BATCH, optimizer="adam", lr=1e-2, schedule="cosine", log_every=5)
    for k, name in enumerate(NAMES):
        seed_all(0)
        model = _new(name)
        batches = deterministic_loader(TensorDataset(*digits("train")), _BATCH, seed=0, shuffle=True)
        run = folder / f"{name}-run"
        fit(model, _loss, batches, config, folder=run, loggers=(_Progress(tell, k * steps),), progress=False)
        weights = {key: value.detach().contiguous() for key, value in model.state_dict().items()}
        replace_file(folder / f"{name}.safetensors", save(weights))


@lru_cache(maxsize=1)
def networks(folder: Path) -> dict[str, nn.Module]:
    """The networks that :func:`train_turn` saved."""
    trained = {}
    for name in NAMES:
        path = folder / f"{name}.safetensors"
        if not path.is_file():
            raise not_trained(_CALLER)
        trained[name] = _new(name)
        trained[name].load_state_dict(read_tensors(path))
        trained[name].eval()
    return trained


@lru_cache(maxsize=1)
def _accuracies(folder: Path) -> dict[str, dict[str, float]]:
    """Of each network, on all test digits: upright, turned by a quarter and by an eighth."""
    images, labels = digits("test")
    poses = {"upright": 0, "quarter": 90, "eighth": 45}
    return {
        name: {pose: accuracy(model, (turned(images, angle), labels)) for pose, angle in poses.items()}
        for name, model in networks(folder).items()
    }


@torch.no_grad()
def turn_answer(folder: Path, picture: Any, angle: Any, layer: Any = 2) -> dict[str, Any]:
    """The turned picture, and what each network makes of it: probabilities of the classes, and a few feature maps.

    Maps come in pairs: as they are, and turned back by the angle. A map of the equivariant network is the largest of
    the ORDER channels of a regular field at each position. A turn permutes these channels, and their maximum only
    turns.

    Args:
        folder: the folder of the networks.
        picture: see :func:`read_picture`; untrusted.
        angle: from 0 to 360 degrees, counterclockwise; untrusted.
        layer: whose maps to show, 1 to 3; untrusted.
    """
    image, label = read_picture(picture)
    if isinstance(angle, bool) or not isinstance(angle, int | float) or not 0 <= angle <= 360:
        raise InputError(_CALLER, expected="an angle from 0 to 360 degrees", got=describe(angle))
    if whole(layer, _CALLER, "a layer from 1 to 3") not in (1, 2, 3):
        raise InputError(_CALLER, expected="a layer from 1 to 3", got=str(layer))
    now = turned(image, angle)
    return {
        "side": SIDE,
        "order": ORDER,
        "label": label,
        "picture": gray_pixels(now),
        "networks": {
            name: {**_seen(name, model, layer, image, now, angle), "accuracy": _accuracies(folder)[name]}
            for name, model in networks(folder).items()
        },
    }


def _seen(name: str, model: nn.Module, layer: int, image: Tensor, now: Tensor, angle: float) -> dict[str, Any]:
    before, first = _run(name, model, layer, image[None])
    after, maps = _run(name, model, layer, now[None])
    back = turned(maps, -angle)[0]
    shown = first[0].flatten(1).norm(dim=1).topk(_MAPS).indices  # of the upright picture, so they stay the same
    top = float(torch.stack([first[0], maps[0]])[:, shown].abs().max())
    return {
        "probabilities": after[0].tolist(),
        "change": float((after - before).abs().sum() / 2),
        "side": maps.shape[-1],
        "upright": [signed_pixels(each, top) for each in first[0, shown]],
        "maps": [signed_pixels(each, top) for each in maps[0, shown]],
        "back": [signed_pixels(each, top) for each in back[shown]],
        "difference": float((back - first[0]).norm() / first[0].norm().clamp_min(1e-12)),
        "weights": sum(weight.numel() for weight in model.parameters()),
    }


def _run(name: str, model: nn.Module, layer: int, images: Tensor) -> tuple[Tensor, Tensor]:
    """The probabilities ``(n, 10)`` of images ``(n, SIDE, SIDE)``, and a layer's maps ``(n, maps, side, side)``."""
    seen: list[Tensor] = []
    handle = model.get_submodule(_RELUS[name][layer - 1]).register_forward_hook(lambda module, x, y: seen.append(y))
    try:
        probabilities = model(images[:, None]).softmax(1)
    finally:
        handle.remove()
    maps = seen[0]
    return probabilities, maps if name == "plain" else maps.unflatten(1, (-1, ORDER)).amax(2)


@torch.no_grad()
def turn_curve(folder: Path, picture: Any) -> dict[str, Any]:
    """The probability of one class against the angle, for each network.

    The class is the label of the picture. If it has none, it is each network's own answer to the upright picture.

    Args:
        folder: the folder of the networks.
        picture: see :func:`read_picture`; untrusted.
    """
    image, label = read_picture(picture)
    images = torch.stack([turned(image, angle) for angle in _CURVE])
    curves = {}
    for name, model in networks(folder).items():
        probabilities = model(images[:, None]).softmax(1)
        which = int(probabilities[0].argmax()) if label is None else label
        curves[name] = {"class": which, "probabilities": probabilities[:, which].tolist()}
    return {"angles": list(_CURVE), "curves": curves}
