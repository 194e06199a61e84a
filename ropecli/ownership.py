"""Files and folders that nobody but the user of this process may have written."""

from __future__ import annotations

import grp
import os
import pwd
import stat


def why_distrusted(status: os.stat_result) -> str:
    """Return who else may have written a file or folder, in words; "" where only the user could.

    Root's files are trusted by root alone: its folders may be those of another system, as in a
    container. A group may write where the user is its only member, as with a umask of 002.
    """
    user = os.geteuid()
    if status.st_uid != user:
        return f"it belongs to user {status.st_uid}, not to user {user}"
    if stat.S_ISLNK(status.st_mode):  # its permissions mean nothing
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "every user may write it"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"group {status.st_gid} may write it"
    return ""


def _is_private(group: int) -> bool:
    """Tell whether a group is the one that was made for the user alone, and has their name."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and {*found.gr_mem} <= {user.pw_name}
