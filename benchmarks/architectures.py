"""Which architectures of timm and torchvision can be made exactly symmetric?

Run as ``python benchmarks/architectures.py``. Every architecture is built without downloads, with random weights and on
small images, and symmetrized under the mirror and the quarter turns by matching and merging (``--refit`` refits as
well). The table shows the share of hidden channels whose permutations are known, the error under the symmetry in
float64 before and after, CPU seconds for both symmetries, and for a refusal its reason.

Rows are written as they are done to ``benchmarks/results/architectures.json``, and rows that are there already are not
run again: remove the file, or name architectures, to run them again. ``--markdown`` prints the table of all rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _timing import write_result
from torch import nn

import intertwine
from intertwine.errors import IntertwineError
from intertwine.measure import equivariance_error, invariance_error, symmetrize
from intertwine.measure.graph import channel_graph
from intertwine.measure.surgery._merge import reset_batch_norms

RESULTS = Path(__file__).parent / "results" / "architectures.json"
SYMMETRIES = ("hflip", "c4")
Factory = Callable[[], nn.Module]


def _torchvision(name: str, **options: Any) -> Factory:
    def build() -> nn.Module:
        import torchvision

        plain = {} if name[0].isupper() else {"weights": None}
        return getattr(torchvision.models, name)(**plain, **options)

    return build


def _timm(name: str, **options: Any) -> Factory:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, **options)

    return build


def _swin(window: int) -> Factory:
    sizes = {"patch_size": [4, 4], "embed_dim": 48, "depths": [2, 2], "num_heads": [3, 6]}
    return _torchvision("SwinTransformer", **sizes, window_size=[window, window])


# Transformers with few blocks: all blocks of a stage are alike.
ARCHITECTURES: dict[str, tuple[int, Factory]] = {
    "torchvision squeezenet1_1": (64, _torchvision("squeezenet1_1")),
    "torchvision googlenet": (64, _torchvision("googlenet", aux_logits=False, init_weights=False)),
    "torchvision inception_v3": (96, _torchvision("inception_v3", aux_logits=False, init_weights=False)),
    "torchvision resnet18": (64, _torchvision("resnet18")),
    "torchvision resnet50": (64, _torchvision("resnet50")),
    "torchvision wide_resnet50_2": (64, _torchvision("wide_resnet50_2")),
    "torchvision resnext50_32x4d": (64, _torchvision("resnext50_32x4d")),
    "torchvision densenet121": (64, _torchvision("densenet121")),
    "torchvision mobilenet_v2": (64, _torchvision("mobilenet_v2")),
    "torchvision mobilenet_v3_small": (64, _torchvision("mobilenet_v3_small")),
    "torchvision efficientnet_b0": (64, _torchvision("efficientnet_b0")),
    "torchvision efficientnet_v2_s": (64, _torchvision("efficientnet_v2_s")),
    "timm efficientnet_lite0": (64, _timm("efficientnet_lite0")),
    "torchvision shufflenet_v2_x0_5": (64, _torchvision("shufflenet_v2_x0_5")),
    "torchvision regnet_y_400mf": (64, _torchvision("regnet_y_400mf")),
    "torchvision mnasnet0_5": (64, _torchvision("mnasnet0_5")),
    "timm ghostnet_050": (64, _timm("ghostnet_050")),
    "timm repvgg_a0": (64, _timm("repvgg_a0")),
    "timm resnest14d": (64, _timm("resnest14d")),
    "torchvision convnext_tiny": (64, _torchvision("convnext_tiny")),
    "timm convnextv2_atto": (64, _timm("convnextv2_atto")),
    "timm edgenext_xx_small": (64, _timm("edgenext_xx_small")),
    "timm mobilevit_xxs": (64, _timm("mobilevit_xxs")),
    "timm mobilevitv2_050": (64, _timm("mobilevitv2_050")),
    "timm fastvit_t8": (64, _timm("fastvit_t8")),
    "timm poolformer_s12": (64, _timm("poolformer_s12")),
    "timm mixer_s32_224": (64, _timm("mixer_s32_224", img_size=64)),
    "timm resmlp_12_224": (64, _timm("resmlp_12_224", img_size=64)),
    "timm gmlp_ti16_224": (64, _timm("gmlp_ti16_224", img_size=64)),
    "timm vit_tiny_patch16_224": (64, _timm("vit_tiny_patch16_224", img_size=64, depth=2)),
    "torchvision VisionTransformer": (
        64,
        _torchvision(
            "VisionTransformer", image_size=64, patch_size=16, num_layers=2, num_heads=3, hidden_dim=192, mlp_dim=768
        ),
    ),
    "timm deit_tiny_distilled_patch16_224": (
        64,
        _timm("deit_tiny_distilled_patch16_224", img_size=64, depth=2),
    ),
    "timm beit_base_patch16_224": (
        64,
        _timm("beit_base_patch16_224", img_size=64, depth=2, embed_dim=192, num_heads=3),
    ),
    "timm eva02_tiny_patch14_224": (56, _timm("eva02_tiny_patch14_224", img_size=56, depth=2)),
    "timm cait_xxs24_224": (64, _timm("cait_xxs24_224", img_size=64, depth=2)),
    "timm xcit_nano_12_p16_224": (64, _timm("xcit_nano_12_p16_224", img_size=64, depth=2)),
    "timm pvt_v2_b0": (64, _timm("pvt_v2_b0")),
    "torchvision SwinTransformer, window 7": (112, _swin(7)),
    "torchvision SwinTransformer, window 4": (64, _swin(4)),
    "timm swin_tiny, window 4": (
        64,
        _timm(
            "swin_tiny_patch4_window7_224", img_size=64, window_size=4, depths=(2, 2), embed_dim=48, num_heads=(3, 6)
        ),
    ),
    "timm swinv2_tiny, window 4": (
        64,
        _timm("swinv2_tiny_window8_256", img_size=64, window_size=4, depths=(2, 2), embed_dim=48, num_heads=(3, 6)),
    ),
    "timm maxvit_pico_rw_256": (64, _timm("maxvit_pico_rw_256", img_size=64)),
    "timm coatnet_nano_rw_224": (64, _timm("coatnet_nano_rw_224", img_size=64)),
    "torchvision vgg11_bn": (32, _torchvision("vgg11_bn", num_classes=10)),
    "torchvision alexnet": (64, _torchvision("alexnet", num_classes=10)),
}


def network(build: Factory) -> nn.Module:
    """The network with perturbed weights: layer scales of 1e-6 and zero position embeddings would hide errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = build().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            spread = float(p.std()) if p.numel() > 1 else 0.0
            p.add_((0.5 * spread or 0.1) * torch.randn(p.shape, generator=generator))
    return model


def error_of(model: nn.Module, x: torch.Tensor, symmetry: str) -> float:
    with torch.no_grad():
        dense = model(x[:1]).dim() == 4
    return (equivariance_error if dense else invariance_error)(model, x, symmetry).mean


def row(name: str, *, refit: bool) -> dict[str, object]:
    size, build = ARCHITECTURES[name]
    x = torch.randn(16, 3, size, size, generator=torch.Generator().manual_seed(1))
    model = reset_batch_norms(network(build), x)  # otherwise the signal dies out in networks with batch norms
    result: dict[str, object] = {"size": size, "parameters": sum(p.numel() for p in model.parameters()), "refit": refit}
    start = time.process_time()
    try:
        graph = channel_graph(model, (3, size, size))
        known, lost = sum(g.size for g in graph.groups), sum(u.channels for u in graph.untraced)
        result["traced"] = known / max(known + lost, 1)
        result["untraced"] = [u.where for u in graph.untraced]
    except IntertwineError as error:
        result["refused"] = str(error)
    for symmetry in SYMMETRIES:
        cell: dict[str, object] = {}
        try:
            cell["before"] = error_of(model.double(), x[:4].double(), symmetry)
            model.float()
            cell["after"] = symmetrize(model, x, symmetry, refit=refit).error
        except IntertwineError as error:
            model.float()
            cell["refused"] = str(error)
        result[symmetry] = cell
    result["seconds"] = time.process_time() - start
    return result


def text(cell: dict[str, Any]) -> str:
    return f"{cell['before']:.1g} → {cell['after']:.0e}" if "after" in cell else f"{cell['before']:.1g}, refused"


def markdown(rows: dict[str, dict[str, Any]]) -> str:
    lines = ["| architecture | pixels | parameters | channels traced | mirror | quarter turns | CPU s |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for name in (n for n in ARCHITECTURES if n in rows):
        r = rows[name]
        traced = f"{r['traced']:.0%}" if "traced" in r else "none"
        cells = " | ".join(text(r[s]) for s in SYMMETRIES)
        count = f"{r['parameters'] / 1e6:.1f} M"
        lines.append(f"| {name} | {r['size']} | {count} | {traced} | {cells} | {r['seconds']:.0f} |")
    for name in (n for n in ARCHITECTURES if n in rows):
        reasons = {rows[name][s]["refused"] for s in SYMMETRIES if "refused" in rows[name][s]}
        lines += [
            f"- {name}: {reason}" for reason in sorted(r.partition("; got ")[2].partition(". ")[0] for r in reasons)
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures to run again")
    parser.add_argument("--refit", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    intertwine.enable_torchvision()
    rows: dict[str, Any] = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    if options.markdown:
        print(markdown(rows))
        return
    for name in options.names or [n for n in ARCHITECTURES if n not in rows]:
        rows[name] = row(name, refit=options.refit)
        cells = "   ".join(f"{s}: {text(rows[name][s])}" for s in SYMMETRIES)
        print(f"{name:<40}{rows[name].get('traced', 0):>6.0%}   {cells}{rows[name]['seconds']:>8.0f} s", flush=True)
        write_result("architectures", {"rows": rows})
        gc.collect()


if __name__ == "__main__":
    main()
