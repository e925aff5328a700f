"""What is shipped for running a region, judged by those who read it: Prometheus and systemd."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightloom.control.client import Client
from test_control_daemon import LIGHTLOOMD, REGION, daemon_at

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def tool(name: str) -> str:
    """Return the path of a program, or skip the test aloud."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here: what is shipped is not checked by it")
    return found


def said(*words: str, text: str | None = None) -> tuple[int, str]:
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    promtool = tool("promtool")
    rules = DEPLOY / "lightloom-rules.yml"
    code, words = said(promtool, "check", "rules", str(rules))
    assert code == 0 and "6 rules found" in words, words
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(rules.read_text().replace("rate(", "rat("))
    assert said(promtool, "check", "rules", str(wrong))[0] != 0, "it looks at nothing"


def test_the_rules_fire_when_they_should(tmp_path: Path) -> None:
    promtool = tool("promtool")
    shutil.copy(DEPLOY / "lightloom-rules.yml", tmp_path)

    def alarm(name: str) -> str:
        return f'lightloom_alarms{{alarm="{name}", instance="c"}}'

    def fires(alert: str, minute: int, name: str) -> dict[str, object]:
        labels = {"alarm": name, "instance": "c"}
        expected = [{"exp_labels": labels, "exp_annotations": {"summary": f"{name} at c"}}]
        return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}

    stalled = '{nic="eps0", instance="r"}'
    nic = {
        "exp_labels": {"nic": "eps0", "instance": "r"},
        "exp_annotations": {"summary": "eps0 at r"},
    }
    series = [
        {"series": alarm("journal-lost"), "values": "0 1 1 0 0"},
        {"series": alarm("port-stuck"), "values": "0 0 1 1 1"},
        {"series": f"lightloom_runtime_stalls_total{stalled}", "values": "0 0 1 1 1 1 1 1 1"},
    ]
    checks = [
        {"eval_time": "0m", "alertname": "LightloomAlarmNow", "exp_alerts": []},
        fires("LightloomAlarmNow", 1, "journal-lost"),
        fires("LightloomAlarm", 2, "journal-lost"),
        fires("LightloomAlarm", 4, "port-stuck"),
        {"eval_time": "1m", "alertname": "LightloomRuntimeStalls", "exp_alerts": []},
        {"eval_time": "3m", "alertname": "LightloomRuntimeStalls", "exp_alerts": [nic]},
        {"eval_time": "8m", "alertname": "LightloomRuntimeStalls", "exp_alerts": []},
    ]
    tests = [{"interval": "1m", "input_series": series, "alert_rule_test": checks}]
    text = {"rule_files": ["lightloom-rules.yml"], "evaluation_interval": "1m", "tests": tests}
    file = tmp_path / "test.yml"
    file.write_text(json.dumps(text))  # JSON is YAML
    code, words = said(promtool, "test", "rules", str(file))
    assert code == 0, words


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[str]:
    if LIGHTLOOMD is None:
        pytest.skip("no lightloomd: make daemon")
    with daemon_at("ocs", "serve", "--listen", "127.0.0.1:0", "--ports", "8") as switch:
        region = tmp_path / "region.toml"
        region.write_text(REGION.format(listen="", switch=switch))
        with daemon_at("controller", "serve", str(region)) as at:
            token = Client(f"http://{at}").token
            headers = {"Accept": "text/plain", "Authorization": f"Bearer {token}"}
            asked = urllib.request.Request(f"http://{at}/metrics", headers=headers)
            with urllib.request.urlopen(asked, timeout=10) as answer:
                assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                yield answer.read().decode()


def test_prometheus_takes_the_metrics(metrics: str) -> None:
    code, words = said(tool("promtool"), "check", "metrics", text=metrics)
    assert (code, words) == (0, "")
    assert said(tool("promtool"), "check", "metrics", text="lightloom_x y\n")[0] != 0


def test_metrics_as_text_name_each_family_as_its_samples(metrics: str) -> None:
    lines = metrics.splitlines()
    counters = {
        line.split()[2] for line in lines if line.startswith("# TYPE") and "counter" in line
    }
    assert "lightloom_plans_total" in counters
    assert all(name.endswith("_total") for name in counters)
    assert "# EOF" not in lines


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root of a system that has what the units need, and no more."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    for name in ("sysinit", "basic", "shutdown", "network-online", "multi-user"):
        (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    for program in ("usr/local/bin/lightloomd", "bin/kill"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    for unit in UNITS:
        shutil.copy(unit, units)
    return tmp_path


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, root: Path) -> None:
    analyze = tool("systemd-analyze")
    copy = root / "etc/systemd/system" / unit.name
    words = [analyze, "verify", "--man=no", f"--root={root}", str(copy)]
    code, told = said(*words)
    if "unrecognized option" in told:
        pytest.skip(f"this systemd-analyze is too old: {told}")
    assert (code, told) == (0, ""), told
    copy.write_text(copy.read_text().replace("RestartSec=200ms", "RestartSec=soon"))
    assert said(*words)[1] != "", "it looks at nothing"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_locked_down(unit: Path) -> None:
    words = ["security", "--offline=true", "--threshold=20", "--no-pager", str(unit)]
    code, told = said(tool("systemd-analyze"), *words)
    if "unrecognized option" in told:
        pytest.skip(f"this systemd-analyze is too old: {told}")
    assert code == 0, told
