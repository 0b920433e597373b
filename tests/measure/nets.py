"""Small networks of every kind of wiring, and networks from elsewhere."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from intertwine import enable_torchvision


class Residual(nn.Module):
    """Identity shortcuts, a projection shortcut, and shortcuts without parameters (option A)."""

    def __init__(self, *, option_a: bool, norm: bool = True) -> None:
        super().__init__()
        bn = nn.BatchNorm2d if norm else nn.Identity
        self.stem, self.bn0 = nn.Conv2d(3, 6, 3, padding=1), bn(6)
        self.a1, self.bn1, self.a2, self.bn2 = (
            nn.Conv2d(6, 5, 3, padding=1),
            bn(5),
            nn.Conv2d(5, 6, 3, padding=1),
            bn(6),
        )
        self.b1, self.bn3 = nn.Conv2d(6, 9, 3, 2, padding=1), bn(9)
        self.b2, self.bn4 = nn.Conv2d(9, 12, 3, padding=1), bn(12)
        self.down = None if option_a else nn.Conv2d(6, 12, 1, 2)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        x = F.relu(self.bn0(self.stem(x)))
        x = F.relu(x + self.bn2(self.a2(F.relu(self.bn1(self.a1(x)), inplace=True))))
        y = self.bn4(self.b2(F.relu(self.bn3(self.b1(x)))))
        x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 3, 3)) if self.down is None else self.down(x)
        return self.head(F.relu(x + y).mean((2, 3)))


class Padded(nn.Module):
    """Two residual blocks whose shortcuts pad their channels with zeros on both sides, and a change to the second.

    The first stage has 4 channels, the second 2 + 4 + 2, the last 4 + 8 + 4.
    """

    def __init__(self, change: str = "") -> None:
        super().__init__()
        self.change = change
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.a1, self.a2, self.norm1 = nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.b1, self.b2, self.norm2 = nn.Conv2d(8, 7, 3, 2, 1), nn.Conv2d(7, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.groups = nn.GroupNorm(4, 16)
        self.wide = nn.Conv2d(7, 32, 1)
        self.head = nn.Linear(32 if change == "twice" else 16, 4)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)) + self.norm1(self.a2(F.relu(self.a1(x)))))
        y, x = F.relu(self.b1(x)), x[:, :, ::2, ::2]
        if self.change == "numbers":
            x = torch.cat([torch.zeros(len(x), 4, *x.shape[2:]).to(x), x, torch.ones(len(x), 4, *x.shape[2:]).to(x)], 1)
        else:
            x = F.pad(x, (0, 0, 0, 0, 4, 4))
        if self.change == "twice":  # the zeros become ½ in one half of the channels
            return self.head(F.relu(torch.cat([torch.sigmoid(x), x], 1) + self.wide(y)).mean((2, 3)))
        x = F.relu(x + self.norm2(self.b2(y)))
        if self.change == "front":
            return self.head(torch.cat([x[:, :4], x[:, 4:]], 1).mean((2, 3)))
        return self.head((self.groups(x) if self.change == "norm" else x).mean((2, 3)))


class Dense(nn.Module):
    """Concatenation, cutting, squeeze and excitation, grouped and depthwise convolutions, group norms."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.depth = nn.Conv2d(12, 24, 3, padding=1, groups=12)
        self.grouped, self.norm = nn.Conv2d(24, 16, 3, padding=1, groups=4), nn.GroupNorm(2, 16)
        self.squeeze, self.excite = nn.Conv2d(16, 5, 1), nn.Conv2d(5, 16, 1)
        self.up = nn.ConvTranspose2d(16, 6, 2, 2)
        self.mix, self.instance = nn.Conv2d(14, 10, 1), nn.InstanceNorm2d(10, affine=True)
        self.slope = nn.PReLU(10)
        self.head = nn.Linear(10 * 4, 3)

    def forward(self, x):
        a, b = F.relu(self.a(x)), F.gelu(self.b(x))
        y = self.norm(self.grouped(F.silu(self.depth(torch.cat([a, b], 1)))))
        y = y * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = F.relu(self.up(F.max_pool2d(y, 2)))
        first, second = torch.cat([y, a], 1).split([9, 5], 1)
        y = self.slope(self.instance(self.mix(torch.cat([first, second], 1))))
        return self.head(F.adaptive_avg_pool2d(y, 2).flatten(1))


class ChannelsLast(nn.Module):
    """A ConvNeXt-like block: permutes, a layer norm over channels, linear maps, a layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.depth, self.norm = nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 20), nn.Linear(20, 8)
        self.scale = nn.Parameter(torch.rand(8, 1, 1))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        y = self.down(F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1)))))
        return self.head((x + self.scale * y.permute(0, 3, 1, 2)).mean((-2, -1)))


class Tokens(nn.Module):
    """Patches, a class token, a position embedding, one attention block, an MLP over tokens."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, (size // 2) ** 2 + 1, 8))
        self.q, self.k, self.v = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(8, 7)
        self.out = nn.Linear(7, 8)
        self.mixer = nn.Sequential(nn.Linear((size // 2) ** 2 + 1, 9), nn.GELU(), nn.Linear(9, (size // 2) ** 2 + 1))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        x = x + self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))
        x = x + self.mixer(x.transpose(1, 2)).transpose(1, 2)
        return self.head(x[:, 0])


class GroupedUp(nn.Module):
    """A grouped and a depthwise transposed convolution, and an image as output."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 12, 2, 2, groups=2)
        self.each = nn.ConvTranspose2d(12, 12, 3, padding=1, groups=12)
        self.b = nn.Conv2d(12, 3, 3, padding=1)

    def forward(self, x):
        return self.b(F.relu(self.each(F.relu(self.up(F.relu(self.a(x)))))))


class Odd(nn.Module):
    """Two operations that nobody can permute through: a sort over channels and a channel shuffle."""

    def __init__(self, *, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3), nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu(self.a(x))
        if self.kind == "cumsum":
            x = x.cumsum(1)
        else:
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.c(F.relu(self.b(x)).mean((2, 3)))


class Tied(nn.Module):
    """One linear map used twice, so that its two axes are one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 2)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.b(torch.tanh(self.a(x)))))))


def vgg(width: int = 8, *, classes: int = 5, norm: bool = False, size: int = 8) -> nn.Module:
    """A few convolutions with pooling, and a linear map after flattening a map of more than one pixel."""
    layers: list[nn.Module] = []
    before = 3
    for after in (width, 2 * width):
        layers += [nn.Conv2d(before, after, 3, padding=1), *([nn.BatchNorm2d(after)] if norm else []), nn.ReLU(True)]
        layers += [nn.MaxPool2d(2)]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * (size // 4) ** 2, classes))


class Block(nn.Module):
    """A residual block with batch norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.norm1 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.b, self.norm2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.norm2(self.b(F.relu(self.norm1(self.a(x))))))


def blocks(width: int = 8) -> nn.Module:
    stem = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(
        *stem, Block(width), Block(width), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 5)
    )


def torchvision():
    """torchvision, also beside a CPU build of torch."""
    enable_torchvision()
    import torchvision

    return torchvision


class Attention(nn.Module):
    """Attention with heads; queries, keys and values in one linear map; optionally a bias by relative position."""

    def __init__(self, width: int, heads: int, *, window: int = 0, norm: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width // heads) if norm else nn.Identity()
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads)) if window else None
        places = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        far = places[:, None] - places[None] + window - 1 if window else torch.zeros(0, 0, 2)
        self.register_buffer("places", (far[..., 0] * (2 * window - 1) + far[..., 1]).flatten().long())

    def forward(self, x, mask=None):
        n, tokens, width = x.shape
        qkv = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = self.norm(qkv[0]), self.norm(qkv[1]), qkv[2]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if self.table is not None:
            scores = scores + self.table[self.places].view(tokens, tokens, -1).permute(2, 0, 1)
        if mask is not None:
            many = len(mask)
            scores = scores.view(n // many, many, self.heads, tokens, tokens) + mask[:, None]
            scores = scores.view(n, self.heads, tokens, tokens)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, width))


class ViT(nn.Module):
    """Patches, a class token, positions, two blocks of attention with heads and an MLP."""

    def __init__(self, *, width: int = 12, heads: int = 3, norm: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.token, self.position = (nn.Parameter(torch.randn(1, n, width)) for n in (1, 10))
        self.attention = nn.ModuleList(Attention(width, heads, norm=norm) for _ in range(2))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for norm, attention, mlp in zip(self.norms[:2], self.attention, self.mlp, strict=True):
            x = x + attention(norm(x))
            x = x + mlp(x)
        return self.head(self.norms[2](x)[:, 0])


class Windows(nn.Module):
    """Attention in windows, in shifted windows with a mask, and on cells of 2 x 2 pixels that are merged."""

    def __init__(self, *, size: int = 8, window: int = 4, shift: int = 2, width: int = 8, slices: bool = False) -> None:
        super().__init__()
        self.window, self.shift, self.slices = window, shift, slices
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.plain, self.shifted = Attention(width, 2, window=window), Attention(width, 2, window=window)
        self.norm, self.merge = nn.LayerNorm(4 * width), nn.Linear(4 * width, 6)
        self.head = nn.Linear(6, 4)
        region = (torch.arange(size) >= size - window).long() + (torch.arange(size) >= size - shift).long()
        cells = self.cut((3 * region[:, None] + region[None])[None, :, :, None]).squeeze(-1)
        self.register_buffer("mask", (cells[:, :, None] != cells[:, None]).float() * -100)

    def cut(self, x):
        n, h, w, c = x.shape
        x = x.view(n, h // self.window, self.window, w // self.window, self.window, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, self.window**2, c)

    def join(self, x, shape):
        n, h, w, c = shape
        x = x.view(n, h // self.window, w // self.window, self.window, self.window, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        x = x + self.join(self.plain(self.cut(x)), x.shape)
        y = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        y = self.join(self.shifted(self.cut(y), self.mask), x.shape)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        n, h, w, c = x.shape
        if self.slices:
            x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        else:
            x = x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 4, 2, 5).reshape(n, h // 2, w // 2, 4 * c)
        return self.head(F.gelu(self.merge(self.norm(x))).mean((1, 2)))
