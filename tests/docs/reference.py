"""The pages about findings and fixes: what `perftui explain` prints, as Markdown."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

from perftui.diagnosis.rule import Claim, Limits, Rule, Rung
from perftui.diagnosis.rules import BY_NAME
from perftui.fixes.catalogue import CATALOGUE, FIXES
from perftui.fixes.fix import CallChange, EnvironmentChange, Fix, LineChange
from perftui.report.explain import answers_of
from perftui.report.markdown import code, plain, table
from perftui.run.columns import phase_name
from perftui_tui.commands.mcp_tools import offered

_CODE = re.compile(
    r"`[^`]+`"  # what is marked so
    r"|--[\w-]+(?:=\w+)?"  # an option
    r"|\.?[A-Za-z_][\w.]*\([^()]*\)"  # a call
    r"|[A-Za-z_]\w*=(?:\w|[.:](?=\w))+"  # an argument or a variable
    r"|[A-Za-z_]\w*(?:\.\w+)+"  # a qualified name
    r"|\w*_\w+|\w+_"  # a name of several words
)
"""What a text in plain words has of a program."""

_EDITS = {
    CallChange: "the arguments of a call, or of the option behind it; a trial passes them at run "
    "time and leaves the source alone.",
    LineChange: "lines of the source.",
    EnvironmentChange: "nothing in the source: variables of the environment that the training is "
    "started with.",
}


def findings_table() -> str:
    """All findings, each with a link to its section."""
    rows = [
        (_link(one.id), prose(one.when), _from(one.limits), prose(one.answer))
        for one in BY_NAME.values()
    ]
    return "\n".join(table(("Finding", "When", "From", "What to do"), rows))


def findings() -> str:
    """A section for each finding."""
    return "\n\n".join("\n".join(_finding(one)) for one in BY_NAME.values())


def fixes_table() -> str:
    """All fixes, each with a link to its section."""
    rows = [(_link(fix.id), prose(fix.what), _addresses(fix)) for fix in FIXES]
    return "\n".join(table(("Fix", "What it does", "Addresses"), rows))


def fixes() -> str:
    """A section for each fix."""
    return "\n\n".join("\n".join(_fix(fix)) for fix in FIXES)


def prose(text: str) -> str:
    """``text`` as Markdown, with what belongs to a program as code."""
    parts, end = [], 0
    for found in _CODE.finditer(text):
        parts += [plain(text[end : found.start()]), code(found[0].strip("`"))]
        end = found.end()
    return "".join((*parts, plain(text[end:])))


def _finding(found: Rule | Rung) -> Iterator[str]:
    yield f"### {code(found.id)}"
    yield f"*{_sentence(prose(found.when))}*\n"
    yield f"{prose(found.explanation)}\n"
    if found.limits:
        yield f"- **Limits.** {prose(_limits(found.limits))}"
    claims = _claims(found.claims) if isinstance(found, Rule) else ""
    if claims:
        yield f"- **Time it claims.** {claims}"
    if found.answer:
        yield f"- **What to do.** {_sentence(prose(found.answer))}"
    for fix in found.fixes if isinstance(found, Rule) else ():
        yield f"- **Fix** {_link(fix, 'fixes.md')}: {prose(CATALOGUE[fix].what)}."


def _fix(fix: Fix) -> Iterator[str]:
    yield f"### {code(fix.id)}"
    yield f"*{_sentence(prose(fix.what))}*\n"
    yield f"{prose(fix.explanation)}\n"
    risks = "; ".join(prose(risk.value) for risk in fix.risks)
    yield f"- **Risks.** {_sentence(risks or 'none that perftui knows')}"
    yield f"- **Edits** {_edits(fix)}"
    yield f"- **Addresses** {_addresses(fix)}."


def _edits(fix: Fix) -> str:
    made = typing.get_type_hints(fix.change)["return"]
    (kind,) = (one for one in typing.get_args(made) if one is not type(None))
    return _EDITS[kind]


def _addresses(fix: Fix) -> str:
    return ", ".join(_link(rule, "findings.md") for rule in answers_of(fix.id))


def _limits(limits: Limits) -> str:
    if limits.is_hint:
        return f"Never more than a hint. {limits.source}"
    return (
        f"Warns from {100 * limits.warning:.0f} % {limits.of}, critical from "
        f"{100 * limits.critical:.0f} %. {limits.source}"
    )


def _claims(claim: Claim) -> str:
    if claim.kernels:
        return "Kernels that it recognizes by their names."
    idle = f"Idle time of the GPU whose cause is *{claim.idle.value}*" if claim.idle else ""
    phase = f"the part *{phase_name(claim.phase)}* of the step" if claim.phase else ""
    if idle and phase:
        return f"{idle}; without a GPU, {phase}."
    return f"{idle or _sentence(phase)[:-1]}." if idle or phase else ""


def _from(limits: Limits | None) -> str:
    if limits and limits.is_hint:
        return "never more than a hint"
    return f"{100 * limits.warning:.0f} % {limits.of}" if limits else ""


def _link(name: str, page: str = "") -> str:
    return f"[{code(name)}]({page}#{name})"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def tools() -> str:
    """The tools of the MCP server."""
    rows = ["| Tool | Arguments | Answer |", "|---|---|---|"]
    for tool in offered(allow_run=True):
        name = f"`{tool.name}`{' *' if tool.is_run else ''}"
        names = (f"**{one.name}**" if one.is_required else one.name for one in tool.arguments)
        rows.append(f"| {name} | {', '.join(names)} | {tool.about} |")
    return "\n".join(rows)
