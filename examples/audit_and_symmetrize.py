"""Measure: how symmetric is a network you trained, and what is the nearest network that is exactly symmetric?"""

import argparse
from pathlib import Path

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", type=Path, help="folder for the page of the audit")
options = parser.parse_args()

data = tw.data.load("digits", size=16).normalized()
(x, y), test = data.train.as_tensors(), data.test.as_tensors()


def train(net: nn.Module, epochs: int) -> nn.Module:
    """An ordinary training loop, with images rotated by random quarter turns."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(64):
            images = x[part].rot90(int(torch.randint(4, ())), (2, 3))
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), y[part]).backward()
            optimizer.step()
    return net.eval()


torch.manual_seed(options.seed)
net = train(tw.models.plain_cnn(1, 10, widths=(8, 12, 16)), options.epochs)

audit = tw.measure.audit(net, (test[0][:200], test[1][:200]), "c4", name="digits")
for layer in (r for r in audit.readings if r.metric == "layer_equivariance_error"):
    print(f"{layer.layer:6} {layer.kind:12} equivariance error {layer.value:.2f} [{layer.low:.2f}, {layer.high:.2f}]")
if options.out:
    audit.save(options.out)  # audit.html, audit.json, audit.csv, audit.xml
    print("page:", options.out / "audit.html")

training_images = torch.cat([x.rot90(k, (2, 3)) for k in range(4)])  # distributed as in training
twin = tw.measure.symmetrize(net, training_images, "c4")
# Tuned towards the average of your network over the group, without labels, it stays exactly symmetric.
final = tw.train.tune(twin, x, epochs=options.epochs).model

for name, model in {"yours": net, "averaged": twin.model, "averaged and tuned": final}.items():
    error = tw.measure.invariance_error(model, test[0], "c4").mean
    print(f"{name:20}  accuracy {tw.measure.accuracy(model, test):.1%}  invariance error {error:.1e}")
if not (error < 1e-5 < tw.measure.invariance_error(net, test[0], "c4").mean):
    raise SystemExit("The last network should be invariant to rounding, and the first should not.")
