"""Sequences: which frames, in which order, and the same whoever asks."""

from __future__ import annotations

import pytest
import torch

from intertwine.data import DigitMotion, FactorGrid, FactorSequences, TransformedSequences, load, part_of_grid
from intertwine.errors import InputError
from intertwine.train import deterministic_loader

GRID = FactorGrid(("shape", "scale", "x"), ((0.0, 1.0), (1.0, 2.0, 3.0), (0.0, 1.0, 2.0, 3.0)))
IMAGES = torch.arange(24, dtype=torch.uint8).view(24, 1, 1, 1).expand(24, 1, 2, 2)


class TestFactors:
    data = FactorSequences(IMAGES, GRID, 6, ("scale", "x"))

    def test_one_factor_moves_round(self):
        for index in range(len(self.data)):
            for factor in ("scale", "x"):
                frames, classes = self.data.sequence(index, factor)
                column = GRID.names.index(factor)
                assert torch.equal(GRID.index(classes), (frames[:, 0, 0, 0] * 255).round().long())
                assert int(GRID.index(classes[:1])) == index
                others = [k for k in range(3) if k != column]
                assert bool((classes[:, others] == classes[:1, others]).all())
                steps = (classes[1:, column] - classes[:-1, column]) % GRID.sizes[column]
                assert steps.tolist() == [1] * 5

    def test_the_factor_is_drawn_from_the_sample(self):
        moved = set()
        for seed in range(20):
            first, again = (self.data.getitem_seeded(5, torch.Generator().manual_seed(seed)) for _ in range(2))
            assert torch.equal(first[0], again[0])
            moved.add(int((first[1][1] - first[1][0]).abs().argmax()))
        assert moved == {1, 2}

    def test_workers_change_nothing(self):
        batches = [
            torch.cat([x for x, _ in deterministic_loader(self.data, batch_size=4, seed=0, workers=workers)])
            for workers in (0, 2)
        ]
        assert torch.equal(*batches)

    def test_part_of_the_sprites(self):
        sprites = load("dsprites")
        part = part_of_grid(
            sprites.train,
            sprites.factors,
            frames=4,
            moving=("scale", "x"),
            shape=[0, 2],
            scale=[1, 3],
            orientation=[0],
            x=[4, 8, 12],
            y=[16],
        )
        assert len(part) == 2 * 2 * 3
        frames, classes = part.sequence(0, "x")
        whole = sprites.train.select(
            sprites.factors.indices(shape=[0], scale=[1], orientation=[0], x=[4, 8, 12], y=[16])
        )
        torch.testing.assert_close(frames[:3], whole.as_tensors()[0])
        assert classes[:, 3].tolist() == [0, 1, 2, 0]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((IMAGES, GRID, 6, ("color",)), "moving factors among shape, scale, x; got color"),
            ((IMAGES, GRID, 6, ()), "got none"),
            ((IMAGES[:5], GRID, 6, ("x",)), "24 images"),
            ((IMAGES, GRID, 0, ("x",)), "at least one frame"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(InputError, match=message):
            FactorSequences(*arguments)


def seeded(motion: DigitMotion, image: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return motion(image, torch.Generator().manual_seed(seed))


class TestDigits:
    digit = torch.zeros(1, 21, 21)
    digit[0, 8:13, 9:11] = 1.0
    digit[0, 8, 9:15] = 1.0

    def test_what_moves_and_what_stays(self):
        seen = set()
        for seed in range(30):
            frames, labels = seeded(DigitMotion(frames=6), self.digit, seed)
            assert frames.shape == (6, 3, 21, 21)
            assert 0 <= float(frames.min()) <= float(frames.max()) <= 1 + 1e-6
            kind = int(labels[0, 0])
            seen.add(kind)
            for column in range(3):
                values = labels[:, 1 + column]
                expected = (values[0] + torch.arange(6)) % 6 if column == kind else values[:1].expand(6)
                assert torch.equal(values, expected)
        assert seen == {0, 1, 2}

    def test_turns_go_counter_clockwise(self):
        """Where the labels say 0 and 90 degrees, the frames are a quarter turn apart."""
        for seed in range(40):
            frames, labels = seeded(DigitMotion(frames=4), self.digit, seed)
            if int(labels[0, 0]) == 0:
                break
        order = labels[:, 1].argsort()
        first, second = frames[order[0]], frames[order[1]]
        torch.testing.assert_close(second, first.rot90(1, (1, 2)), rtol=0, atol=1e-4)

    def test_scales_enlarge(self):
        for seed in range(40):
            frames, labels = seeded(DigitMotion(frames=6), self.digit, seed)
            if int(labels[0, 0]) == 1:
                break
        area = frames.sum((1, 2, 3))[labels[:, 2].argsort()]
        assert bool((area.diff() > 0).all())

    def test_hues_are_pure_colors(self):
        for seed in range(40):
            frames, labels = seeded(DigitMotion(frames=6), self.digit, seed)
            if int(labels[0, 0]) == 2:
                break
        red = frames[int((labels[:, 3] == 3).nonzero()[0])]  # half way round from −180°: hue 0
        assert float(red[0].max()) > 0.5
        assert float(red[1:].abs().max()) < 1e-6
        value = frames.amax(1)
        torch.testing.assert_close(value, value[:1].expand_as(value), rtol=0, atol=1e-5)

    @pytest.mark.parametrize("mode", ["dual", "perspective"])
    def test_several_at_once(self, mode):
        frames, labels = seeded(DigitMotion(frames=6, mode=mode), self.digit, 0)
        assert set(labels[:, 0].tolist()) == {3}
        assert bool((labels[1:, [1, 3]] != labels[:-1, [1, 3]]).all())
        assert bool(torch.isfinite(frames).all())
        upright = int((labels[:, 1] == 0).nonzero()[0])
        torch.testing.assert_close(frames[upright].amax(0), self.digit[0], rtol=0, atol=1e-4)

    def test_gray(self):
        frames, labels = seeded(DigitMotion(frames=5, color=False), self.digit, 1)
        assert frames.shape == (5, 1, 21, 21)
        assert int(labels[0, 0]) < 2

    def test_sequences_of_a_data_set(self):
        data = TransformedSequences(load("digits").test, DigitMotion(frames=4))
        assert data[3][0].shape == (4, 3, 8, 8)
        assert torch.equal(data[3][0], data[3][0])
        assert len(data) == 360

    def test_channels_without_color_move_alike(self):
        image, motion = torch.rand(2, 8, 8), DigitMotion(frames=5, color=False)
        both, about = motion(image, torch.Generator().manual_seed(0))
        for channel in range(2):
            alone, same = motion(image[channel : channel + 1], torch.Generator().manual_seed(0))
            assert torch.equal(both[:, channel : channel + 1], alone)
            assert torch.equal(about, same)

    def test_bad_input(self):
        with pytest.raises(InputError, match="mode to be 'single', 'dual' or 'perspective'"):
            DigitMotion(mode="triple")
        with pytest.raises(InputError, match="a gray image"):
            seeded(DigitMotion(), torch.rand(3, 8, 8), 0)


@pytest.mark.parametrize("mode", ["single", "dual", "perspective"])
def test_frames_are_those_of_grid_sample(mode, monkeypatch):
    """The maps of a motion, put through torch's own sampler with its own alignment."""
    from intertwine.data import _digit_motions as motions

    maps = []
    keep = motions._warped
    monkeypatch.setattr(motions, "_warped", lambda image, inverse: maps.append(inverse) or keep(image, inverse))
    image = torch.rand(1, 20, 28, generator=torch.Generator().manual_seed(0))
    frames, _ = DigitMotion(frames=12, mode=mode, color=False)(image, torch.Generator().manual_seed(1))
    y, x = torch.meshgrid(torch.arange(20) - 9.5, torch.arange(28) - 13.5, indexing="ij")
    source = torch.stack([x, y, torch.ones_like(x)], -1) @ maps[0].transpose(1, 2)[:, None]
    ahead = source[..., 2:].abs() > 1e-9
    grid = torch.where(ahead, source[..., :2] / source[..., 2:] / torch.tensor([13.5, 9.5]), 2.0)
    expected = torch.nn.functional.grid_sample(image.expand(12, 1, 20, 28), grid, align_corners=True)
    assert (frames - expected).abs().max() < 1e-4
    assert (frames - expected.flip(-1)).abs().max() > 0.1
