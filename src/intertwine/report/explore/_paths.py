"""Texts for the page, without the paths of this machine: a screenshot of the explorer tells nothing about its disk."""

from __future__ import annotations

import re

# The folders of an absolute path, up to its last name. Quotes and colons end a path. A folder's name may contain
# spaces, but not at its ends, so "1 / 2 / 3" is no path. Windows: a drive, or two backslashes.
_END = r"/\\'\"<>|:;,\n"
_NAME = rf"[^{_END}\s](?:[^{_END}]*[^{_END}\s])?"
_POSIX = rf"(?<![\w.:/)])/(?:{_NAME}/)+"
_WINDOWS = rf"(?<!\w)(?:[A-Za-z]:[\\/]|\\\\)(?:{_NAME}[\\/])*"
_FOLDERS = re.compile(f"{_WINDOWS}|{_POSIX}")


def without_paths(text: str) -> str:
    """The text with absolute paths shortened to their last name.

    >>> without_paths("/home/ada/my runs/audit.json: expected an audit; got 1 / 2 / 3 of it.")
    'audit.json: expected an audit; got 1 / 2 / 3 of it.'
    """
    return _FOLDERS.sub("", text)
