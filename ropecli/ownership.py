"""Files and folders that only the user of this process can have written."""

from __future__ import annotations

import grp
import os
import pwd
import stat


def why_distrusted(status: os.stat_result) -> str:
    """Return who else can have written a file or folder; "" if only the user can.

    Root's files are trusted only by root: its folders may be those of another system, as in a
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
    """Return whether a group is the user's own, with their name and no other member."""
    try:
        user, group_entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group_entry.gr_name == user.pw_name and {*group_entry.gr_mem} <= {user.pw_name}
