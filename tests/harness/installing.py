"""Packages for tests, installed the way pip does it: modules, and a .dist-info folder that names their entry points."""

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path,
    package: str,
    *,
    entry_points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
) -> None:
    """entry_points: group -> name -> "module:object"; modules: name -> source. Version 1.0."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in (modules or {}).items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    reported = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    reported.mkdir()
    (reported / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    lines = []
    for group, things in entry_points.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in things.items()), ""]
    (reported / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
