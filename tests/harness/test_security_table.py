"""[attached.security] in scenario files: names of secrets are read and kept, secrets themselves are refused unseen."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import Problems
from harness.ports.security import SecuritySpec
from harness.scenario.file import parse
from harness.scenario.model import Scenario
from harness.scenario.overrides import attached_overrides
from harness.scenario.written import written_out

TOPIC = '[[topics]]\nname = "orders"\n'
SECRET = "hunter2-and-more"
SCRAM = SecuritySpec(sasl="SCRAM-SHA-512", user="chaos", password_env="PASSWORD")


def read(text: str, *overrides: str) -> Scenario:
    return parse(TOPIC + text, name="mine", place="mine.toml", overrides=overrides)


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(Problems) as problems:
        read(text, *overrides)
    return str(problems.value)


def test_the_table_is_read_and_written_out_with_files_that_are_found_from_everywhere() -> None:
    table = '[attached.security]\nca_file = "ca.pem"\nsasl = "PLAIN"\nuser = "chaos"\npassword_env = "PASSWORD"\n'
    scenario = read('[attached]\nkill = "k"\n' + table)
    security = scenario.cluster.attached.security
    assert security == replace(SCRAM, sasl="PLAIN", ca_file=str(Path.cwd() / "ca.pem"))
    again = parse(written_out(scenario), name="mine", place="again.toml")
    assert again.cluster.attached == scenario.cluster.attached


def test_an_empty_table_means_tls_with_the_authorities_of_this_machine_and_none_means_nothing() -> None:
    scenario = read("[attached.security]\n")
    assert scenario.cluster.attached.security == SecuritySpec()
    again = parse(written_out(scenario), name="mine", place="again.toml")
    assert again.cluster.attached.security == SecuritySpec()
    assert read("").cluster.attached.security is None


def test_a_file_about_a_cluster_gives_it_to_any_scenario(tmp_path: Path) -> None:
    file = tmp_path / "staging.toml"
    file.write_text(
        '[attached.security]\nsasl = "SCRAM-SHA-512"\nuser = "chaos"\npassword_env = "PASSWORD"\ntls = true\n'
    )
    assert read("", *attached_overrides(file)).cluster.attached.security == SCRAM


@pytest.mark.parametrize(
    ("key", "line"), [("", 4), ("ca_file", 5), ("password_env", 8), ("user", 7), ("key_file", 4), ("sasl", 6)]
)
def test_the_place_of_a_key_is_its_line_and_else_the_tables(key: str, line: int) -> None:
    table = '[attached.security]\nca_file = "ca"\nsasl = "PLAIN"\nuser = "chaos"\npassword_env = "PASSWORD"\n'
    text = TOPIC + "[attached]\n" + table
    assert parse(text, name="mine", place="mine.toml").places.security(key).line == line


@pytest.mark.parametrize("key", ["password", "key_password", "token"])
@pytest.mark.parametrize("form", ["[attached.security]\n{}\n", "[attached]\nsecurity = {{ {} }}\n"])
def test_a_secret_in_a_scenario_is_refused_with_the_remedy_and_not_shown(key: str, form: str) -> None:
    line = refused(form.format(f'{key} = "{SECRET}"'))
    assert f"mine.toml:4: {key} is a secret" in line
    assert f"give {key}_" in line
    assert SECRET not in line


@pytest.mark.parametrize(
    "override",
    [
        f"attached.security.password={SECRET}",
        f'attached.security={{ password = "{SECRET}" }}',
        f"attached.security.pasword_env={SECRET}",
    ],
)
def test_an_option_that_is_refused_is_named_without_its_value(override: str) -> None:
    assert f"--set {override.partition('=')[0]}: " in refused("", override)
    assert SECRET not in refused("", override)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'sasl = "GSSAPI"',
            "mine.toml:4: sasl: a mechanism is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ("tls = 1", "mine.toml:4: tls: true or false is needed"),
        ('ca_file = ""', "mine.toml:4: ca_file: the name of a file is needed"),
        ('passwort_env = "X"', "mine.toml:4: unknown key 'passwort_env' in [attached.security]"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(line: str, said: str) -> None:
    assert said in refused(f"[attached.security]\n{line}\n")


@pytest.mark.parametrize(
    ("security", "key"),
    [
        (SecuritySpec(tls=False), "tls"),
        (replace(SCRAM, tls=False, ca_file="ca"), "ca_file"),
        (SecuritySpec(key_file="key"), "key_file"),
        (SecuritySpec(key_password_env="P"), "key_password_env"),
        (replace(SCRAM, password_file="p"), "password_file"),
        (replace(SCRAM, user=""), "sasl"),
        (replace(SCRAM, password_env=""), "sasl"),
        (SecuritySpec(sasl="OAUTHBEARER"), "sasl"),
        (SecuritySpec(sasl="OAUTHBEARER", token_command="t", user="chaos"), "user"),
        (SecuritySpec(user="chaos"), "user"),
        (replace(SCRAM, token_command="t"), "token_command"),
    ],
)
def test_a_table_that_contradicts_itself_is_told_with_the_key_and_a_remedy(security: SecuritySpec, key: str) -> None:
    [(named, what, remedy)] = security.contradictions()
    assert named == key
    assert what
    assert remedy


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (SCRAM, "SASL_SSL"),
        (SecuritySpec(), "SSL"),
        (replace(SCRAM, tls=False), "SASL_PLAINTEXT"),
        (SecuritySpec(sasl="OAUTHBEARER", token_command="t"), "SASL_SSL"),
    ],
)
def test_what_is_consistent_is_left_alone(security: SecuritySpec, protocol: str) -> None:
    assert list(security.contradictions()) == []
    assert security.protocol == protocol
