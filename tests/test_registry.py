from __future__ import annotations

import pytest

from intertwine._registry import Registry
from intertwine.errors import InputError


def test_names_are_unique_and_ordered():
    things = Registry[object]("thing")
    first = object()
    things.add("b", first)
    things.add("a", 1)
    assert things.add("b", first) is first
    assert list(things) == ["b", "a"]
    assert things.values() == [first, 1]
    assert len(things) == 2
    with pytest.raises(InputError, match="a second thing of this name"):
        things.add("a", 2)


def test_an_unknown_name_is_explained():
    things = Registry[int]("thing")
    things.add("square", 4)
    with pytest.raises(InputError, match="Did you mean square"):
        things["squaer"]
    with pytest.raises(InputError, match="expected one of square; got 'xyz'"):
        things["xyz"]
