"""The workflow files that docs/ci offers: YAML as their CI reads it, and only commands and options that there are."""

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from harness.cli.main import app

ROOT = Path(__file__).parent.parent
CI = ROOT / "docs" / "ci"
GITHUB, GITLAB = CI / "github-actions.yml", CI / "gitlab-ci.yml"
IMAGE = "kafka-chaos:local"


def parsed(path: Path) -> dict[Any, Any]:
    stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(stored, dict)
    return stored


def steps_of_github() -> list[dict[str, Any]]:
    [job] = parsed(GITHUB)["jobs"].values()
    return list(job["steps"])


def shell_lines(path: Path) -> list[str]:
    if path == GITHUB:
        return [line for step in steps_of_github() for line in step.get("run", "").splitlines()]
    return [str(line) for line in parsed(path)["nightly"]["script"]]


def commands_in(document: str) -> Iterator[str]:
    """What a reader of a document copies: lines of its fenced blocks, and what stands between backticks with more than
    the name of a command."""
    fenced = False
    for line in document.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            yield line
        else:
            yield from (found for found in re.findall(r"`([^`]+)`", line) if found.count(" ") > 1)


def arguments_of(line: str) -> list[str] | None:
    """What our command line is given in a shell line, or by the image's entry point; None: it is another command."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["docker", "run"] and IMAGE in words:
        return words[words.index(IMAGE) + 1 :]
    return words[1:] if words and Path(words[0]).name == "kafka-chaos" else None


def refusal(arguments: Iterable[str]) -> str:
    """Why our command line does not take these arguments, or "". Nothing is run.

    Options before the command are looked up and never parsed: some act as soon as they are (--install-completion).
    """
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    name, *rest = arguments
    if name.startswith("-"):
        return "" if any(name in option.opts for option in group.params) else f"no option {name}"
    with group.make_context("kafka-chaos", [name]) as context:
        command = group.get_command(context, name)
        if command is None:
            return f"no command {name}"
        try:
            command.make_context(name, rest, parent=context).close()
        except Exception as error:  # noqa: BLE001  # whatever the parser says is the answer
            return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("path", [GITHUB, GITLAB], ids=lambda path: path.stem)
def test_every_command_of_a_workflow_is_one_that_our_command_line_takes(path: Path) -> None:
    ours = [arguments for line in shell_lines(path) if (arguments := arguments_of(line)) is not None]
    assert [arguments[0] for arguments in ours] == ["fetch-kafka", "nightly"]
    assert {" ".join(arguments): why for arguments in ours if (why := refusal(arguments))} == {}


def test_the_parser_refuses_what_there_is_not() -> None:
    assert refusal(["nigthly"]) == "no command nigthly"
    assert refusal(["--instal-completion"]) == "no option --instal-completion"
    assert "No such option: --juni" in refusal(["nightly", "--juni", "f"])
    assert "MissingParameter" in refusal(["fetch-kafka"])


@pytest.mark.parametrize("path", [GITHUB, GITLAB], ids=lambda path: path.stem)
def test_every_shell_line_of_a_workflow_is_one_that_a_shell_parses(path: Path) -> None:
    for line in shell_lines(path):
        finished = subprocess.run(["sh", "-n", "-c", line], check=False, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stderr


def test_what_a_workflow_has_made_is_there_and_what_it_writes_is_kept() -> None:
    [target] = [line.split()[1] for line in shell_lines(GITHUB) if line.startswith("make ")]
    finished = subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=False, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    written = {"runs", "junit.xml", "summary.md"}
    [kept] = [step["with"]["path"].split() for step in steps_of_github() if "upload" in step.get("uses", "")]
    job = parsed(GITLAB)["nightly"]
    assert set(kept) == written == set(job["artifacts"]["paths"])
    assert job["artifacts"]["reports"] == {"junit": "junit.xml"}
    for path in (GITHUB, GITLAB):
        [night] = [words for line in shell_lines(path) if (words := arguments_of(line)) and words[0] == "nightly"]
        assert {night[night.index(option) + 1] for option in ("--junit", "--summary")} == written - {"runs"}


def test_the_jars_and_the_nights_are_kept_from_night_to_night() -> None:
    kept = [step["with"]["path"] for step in steps_of_github() if "actions/cache" in step.get("uses", "")]
    assert kept == ["~/.cache/kafka-chaos", "runs/trends"]
    job = parsed(GITLAB)["nightly"]
    assert job["cache"]["paths"] == [".cache/kafka-chaos", "runs/trends"]
    assert job["variables"]["XDG_CACHE_HOME"] == "$CI_PROJECT_DIR/.cache"


@pytest.mark.parametrize("name", ["README.md", "docs/ci/README.md"])
def test_every_whole_command_of_a_document_is_one_that_our_command_line_takes(name: str) -> None:
    refused: dict[str, str] = {}
    taken = 0
    for line in commands_in((ROOT / name).read_text(encoding="utf-8")):
        if any(sign in line for sign in "…[|<") or re.search(r"\b[A-Z]{4,}\b", line):
            continue  # the form of a command, not a command
        arguments = arguments_of(line)
        if arguments:
            taken += 1
            refused |= {line: why} if (why := refusal(arguments)) else {}
    assert taken
    assert refused == {}


def test_the_image_keeps_everything_in_the_folder_that_its_documents_mount() -> None:
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    [folder] = re.findall(r"^WORKDIR (\S+)$", recipe, flags=re.MULTILINE)
    assert f"HOME={folder}" in recipe
    assert f"XDG_CACHE_HOME={folder}/.cache" in recipe
    for mounted in re.findall(r":(/\S+) ", " ".join(commands_in((CI / "README.md").read_text(encoding="utf-8")))):
        assert mounted.startswith(folder)
