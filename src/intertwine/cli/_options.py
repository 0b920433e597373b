"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA_HELP = "A name ('intertwine list datasets'), class folders, an archive or .npz."

FolderOption = Annotated[Path | None, typer.Option(help="Folder with the files of a named data set.")]
AddressOption = Annotated[str | None, typer.Option(help="Address of a Ray cluster, with --engine ray.")]
ArgOption = Annotated[list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the factory.")]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Load a file that the checks refuse; it may then run code on this machine.")
]
MeanOption = Annotated[str | None, typer.Option(metavar="A,B,C", help="Normalize with these means ...")]
StdOption = Annotated[str | None, typer.Option(metavar="A,B,C", help="... and these standard deviations.")]
