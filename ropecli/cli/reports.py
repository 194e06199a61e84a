"""Options by which `check` and `lint` report problems to CI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ropecli.cli.command import flag, option
from ropecli.cli.parameters import Parsed
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.render.problems import Report

#: What the name of a report ends in, so that no model and no code is taken for one.
SUFFIXES = {"junit": (".xml",), "sarif": (".sarif", ".sarif.json")}


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of a command that finds problems."""

    heading: ClassVar[str] = "Output"
    parsed: Parsed
    junit: Path | None = option("FILE", "Write JUnit XML: FILE ends in .xml.")
    sarif: Path | None = option("FILE", "Write SARIF 2.1.0 for code hosts: FILE ends in .sarif.")
    github: bool = flag(
        "--github", "Print annotations of GitHub Actions to stderr. [default: in its jobs]"
    )

    def __post_init__(self) -> None:
        for name, suffixes in SUFFIXES.items():
            file: Path | None = getattr(self, name)
            if file is not None and not str(file).endswith(suffixes):
                command, given = self.parsed.command, self.parsed.parameters
                named = [given[argument] for argument in self.parsed.arguments if given[argument]]
                subject = "..." if named else file  # as when it was a flag of lint
                raise ArgumentError(
                    f"--{name} FILE must end in {' or '.join(suffixes)}, got {file}",
                    f"write ropecli {command} {subject} --{name} {command}{suffixes[0]}",
                )
            if file is not None and str(file).startswith("-"):
                raise ArgumentError(f"--{name} must be a file, got {file}")

    @property
    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.junit, self.sarif) if path is not None]

    def refuse(self, others: Iterable[Path], *, sources: Iterable[Path], force: bool) -> None:
        """Refuse files that can't be written, before anything is run."""
        from ropecli.render.problems import check_files

        check_files([*self.files, *others], sources=sources, force=force)

    def write(self, report: Callable[[], Report], *, force: bool) -> None:
        """Write the reports that are wanted."""
        on_github = self.github or os.environ.get("GITHUB_ACTIONS") == "true"
        if not (self.files or on_github):
            return
        from ropecli.render import console
        from ropecli.render.problems import write_reports

        made = report()
        write_reports(made, junit=self.junit, sarif=self.sarif, force=force)
        for file in () if self.parsed.parameters["quiet"] else self.files:
            console.note(f"{file} written")
        if on_github:
            console.annotate(made.annotations())
