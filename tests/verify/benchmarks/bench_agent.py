"""How far a loop gets that only follows what the commands answer: no model, no knowledge.

    python tests/verify/benchmarks/bench_agent.py [NAME...]

Twelve trainings of ``tests/verify/scenarios`` with a planted cause each. The loop runs
``diagnose --json --brief``, takes the ``next`` of the findings in their order, follows that of each
answer, and ends where none is left that it has not run. Then the script as it was is held against
what it is now by pairs of runs of their own. A claim is false where a fix was called faster and
kept, and the script is not. About five minutes for each."""

import json
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perftui.experiments.trial import paired_runs
from perftui.experiments.trial_runs import TrialSetup, facts_of, steps_of_each
from perftui.experiments.trial_verdict import Agreement, Outcome
from perftui.fixes.option import Risk
from perftui.recorder.launch import Launch

TRAININGS = Path(__file__).parents[1] / "scenarios" / "trainings"
NAMES = (
    *("adamw_many_tensors", "anomaly_left_on", "collect_each_step", "checkpoint_every_20"),
    *("checkpointed_blocks", "default_dtype_double", "evaluation_with_gradients", "one_thread"),
    *("input_in_main_thread", "input_remote_reads", "json_log_each_step", "waits_for_a_stop_file"),
)
MOST_TRIALS = 4
STEPS = "200"


@dataclass
class Agent:
    """What it has run so far."""

    directory: Path
    calls: int = 0
    trials: int = 0
    kept: list[str] = field(default_factory=list)
    run: list[list[str]] = field(default_factory=list)

    def call(self, words: list[str]) -> Any:
        """The answer of a command, None where it is no JSON."""
        self.calls += 1
        self.run.append(words)
        wanted = ("--json",) if words[1] in ("apply", "undo") else ("--json", "--brief")
        # What stands behind a script is the script's.
        given = [words[1], *(flag for flag in wanted if flag not in words), *words[2:]]
        ended = subprocess.run(
            [sys.executable, "-m", "perftui_tui", *given],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            return json.loads(ended.stdout)
        except json.JSONDecodeError:
            return None

    def work(self) -> str | None:
        """Follow the commands to their end; the directory of the first run."""
        report = self.call(["perftui", "diagnose", "--max-steps", STEPS, "train.py"])
        first = report["path"] if report else None
        while report is not None:
            report = self._one(report)
        return first

    def _one(self, report: dict[str, Any]) -> Any:
        """Follow the first new command of a report; the report that comes of it, None at the
        end."""
        wanted = [report["next"], *(finding["next"] for finding in report["findings"])]
        for words in wanted:
            if not words or words in self.run or self.trials >= MOST_TRIALS:
                continue
            answer = self.call(words)
            self.trials += words[1] == "try"
            while answer and answer.get("next") and self.trials < MOST_TRIALS:
                words = answer["next"]
                answer = self.call(words)
                self.trials += words[1] == "try"
                if words[1] == "apply":
                    self.kept.append(words[2])
                if words[1] == "diagnose":
                    return answer
        return None


def solved(name: str, directory: Path) -> str:
    """One training, in a line of the table."""
    source = (TRAININGS / f"{name}.py").read_text().replace("  # planted", "")
    for file in ("train.py", "before.py"):
        (directory / file).write_text(source)
    agent = Agent(directory)
    first = agent.work()
    if first is None:
        return f"| {name} | no report | {agent.calls} | | |"
    launches = [
        Launch((sys.executable, file), directory, directory / ".perftui" / "runs")
        for file in ("before.py", "train.py")
    ]
    steps = steps_of_each(facts_of(Path(first)))
    made = paired_runs(
        *launches, TrialSetup(directory / "check", steps, threading.Event()), risks=tuple(Risk)
    )
    progress = list(made)[-1]
    is_false = bool(agent.kept) and progress.verdict.outcome is not Outcome.FASTER
    is_false |= progress.losses.agreement is Agreement.DIFFER
    kept = ", ".join(agent.kept) or "nothing"
    headline, losses = progress.verdict.headline, progress.losses.sentence
    return f"| {name} | {kept} | {agent.calls} | {headline} | {losses} | {is_false} |"


def main() -> None:
    """Solve them all."""
    print("| training | kept | calls | as it was and now | losses | false claim |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as directory:
            print(solved(name, Path(directory)), flush=True)


if __name__ == "__main__":
    main()
