#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.4.15"]
# ///
"""Tasks of development: `nox -l` lists them; `.ci/run` runs every gate."""

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True


@nox.session
def test(session: nox.Session) -> None:
    """Run the quick tests."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session(default=False)
def slow(session: nox.Session) -> None:
    """Run the tests of many processes, figures and clusters."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "slow and not oracle", *session.posargs)


@nox.session(default=False)
def oracles(session: nox.Session) -> None:
    """Compare with other people's libraries."""
    session.install("-e", ".[test,oracles,safetensors]")
    session.run("pytest", "-m", "oracle", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, layers and spelling."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    session.run("codespell", "README.md", "docs", "ropecli", "tests", "examples")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("-e", ".[test,dev]")
    session.run("mypy", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Write the generated parts of the pages, and build them with warnings as errors."""
    session.install("-e", ".[docs]")
    session.run("python", "docs/generate.py")
    session.run("sphinx-build", "-q", "-W", "-n", "-b", "html", "docs", "docs/_build/html")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Run the benchmarks."""
    session.install("-e", ".[test,bench]")
    session.run("pytest", "tests/benchmarks", "-o", "python_files=bench_*.py", *session.posargs)


if __name__ == "__main__":
    nox.main()
