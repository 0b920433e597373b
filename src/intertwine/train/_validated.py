"""Pydantic models whose validation errors are errors of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from ..errors import InputError


class ValidatedModel(BaseModel):
    """A pydantic model that reports all invalid fields in one :class:`InputError`."""

    if not TYPE_CHECKING:  # type checkers see the signature that pydantic derives from the fields

        def __init__(self, **data: Any) -> None:
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise _named(type(self).__name__, error) from None


def _named(caller: str, error: ValidationError) -> InputError:
    problems, inputs = [], []
    for item in error.errors(include_url=False):
        name = ".".join(str(part) for part in item["loc"] if part != "constrained-str")
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = "no such field"
        problems.append(f"{name}: {message[0].lower()}{message[1:]}" if name else message)
        if name:
            inputs.append(repr(item["input"]))
    return InputError(caller, expected="; ".join(problems), got=", ".join(inputs) or "fields that do not fit together")
