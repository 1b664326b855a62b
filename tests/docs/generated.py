"""Parts of the documents that are made from the program.

``python -m tests.docs.generated`` writes them anew. Such a part stands between ``<!-- generated:
KIND WORDS -->`` and ``<!-- end -->``."""

import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from perftui.diagnosis.rule import Limits, Rule, Rung
from perftui.diagnosis.rules import BY_NAME, answered_by
from perftui.fixes.catalogue import CATALOGUE
from perftui.fixes.fix import CallChange, Fix, LineChange
from perftui.fixes.option import FixOption
from perftui.recorder import machine_sampling
from perftui.report.markdown import code, plain
from perftui_tui.commands.mcp_tools import offered
from perftui_tui.dialogs.help import BY_SCREEN, TERMS
from perftui_tui.keys.all_keys import KEYS, Key
from perftui_tui.keys.own_keys import key_in_file, shown_key
from tests.docs.documents import DOCUMENTS, ROOT

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
    CallChange: "arguments of a call",
    LineChange: "lines of the source",
    FixOption: "variables of the environment",
}


SUBJECTS = {
    "data_loader": "Data loader",
    "script": "The script",
    "step": "Steps and recordings",
    "operators": "Operators",
    "gpu_idle": "An idle GPU",
    "ranks": "Ranks",
    "machine": "The machine",
    "": "If no rule knows the cause",
}
"""What a folder of symptoms is about, in the order of the index."""


def findings_index() -> str:
    """All findings by subject, each a link to its section."""
    of: dict[str, list[str]] = {folder: [] for folder in SUBJECTS}
    for one in BY_NAME.values():
        judge = one.lost if isinstance(one, Rule) else one.judge
        of["".join(judge.__module__.split(".")[3:4])].append(_link(one.id))
    rows = (f"- **{SUBJECTS[folder]}.** {', '.join(links)}" for folder, links in of.items())
    return "\n".join(rows)


def findings() -> str:
    """A section for each finding."""
    return "\n\n".join("\n".join(_finding(one)) for one in BY_NAME.values())


def table(*rows: tuple[str, ...]) -> str:
    """A table of cells that are Markdown already, the first row being its heads."""
    head, *others = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = (head, ["---"] * len(rows[0]), *others)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def fixes_table() -> str:
    """All fixes, each with a link to its section."""
    rows = [(_link(fix.id), _addresses(fix)) for fix in CATALOGUE.values()]
    return table(("Fix", "Addresses"), *rows)


def fixes() -> str:
    """A section for each fix."""
    return "\n\n".join("\n".join(_fix(fix)) for fix in CATALOGUE.values())


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
    answer = f" **{_sentence(prose(found.answer))}**" if found.answer else ""
    limits = _limits(found.limits).strip() if found.limits else ""
    yield f"{prose(found.explanation)}{answer}{f' *{prose(limits)}*' if limits else ''}"
    if isinstance(found, Rule) and found.fixes:
        yield f"\nFixes: {', '.join(_link(fix, 'fixes.md') for fix in found.fixes)}."


def _fix(fix: Fix) -> Iterator[str]:
    yield f"### {code(fix.id)}"
    yield f"*{_sentence(prose(fix.what))}*\n"
    yield f"{prose(fix.explanation)}\n"
    risks = "; ".join(prose(risk.value) for risk in fix.risks)
    made = typing.get_args(typing.get_type_hints(fix.change)["return"])
    edits = next(_EDITS[kind] for kind in made if kind in _EDITS)
    yield f"**Edits** {edits}. **Risks:** {risks or 'none that perftui knows'}."


def _addresses(fix: Fix) -> str:
    return ", ".join(_link(rule, "findings.md") for rule in answered_by(fix.id))


def _limits(limits: Limits) -> str:
    if limits.is_hint:
        return f"Only a hint. {limits.source}"
    usual = Limits()
    source = "" if limits.source == usual.source else limits.source
    if (limits.warning, limits.critical, limits.of) == (usual.warning, usual.critical, usual.of):
        return source
    of = "" if limits.of == usual.of else f" {limits.of}"
    shares = f"{100 * limits.warning:.0f} and {100 * limits.critical:.0f} %{of}"
    return f"Limits: {shares}. {source}"


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


SCOPES = tuple(dict.fromkeys(key.scope for key in KEYS))
"""Where keys work, in the order of the table."""

_NAMED = re.compile(r"\{([a-z_.]+(?:\([^{}]*\))?)\}")
"""An action whose key a text of the app shows."""


def about(screen: str) -> str:
    """What the help of a screen says about it."""
    module = import_module(f"perftui_tui.screens.{screen}")
    return _text(getattr(module, f"{screen.title()}Screen").HELP)


def keys(*scopes: str) -> str:
    """The keys of these scopes as one table."""
    rows = [(_named(key), prose(key.help)) for key in KEYS if key.scope in scopes]
    return table(("Key", "What it does"), *rows)


def numbers(screen: str) -> str:
    """What each number of a screen means, as its help says it."""
    entries = BY_SCREEN[screen]
    return "\n".join(f"- **{plain(one.name)}.** {_text(one.text)}" for one in entries)


def terms() -> str:
    """The terms that the help explains."""
    return "\n".join(f"- **{name}**: {_text(text)}." for name, text in TERMS)


def _named(key: Key) -> str:
    _, *others = key.keys.split(",")
    return " ".join(map(code, (key.display, *map(key_in_file, others))))


def _text(text: str) -> str:
    *parts, last = _NAMED.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return "".join(f"{prose(before)}{code(shown_key(name))}" for before, name in pairs) + prose(
        last
    )


KINDS = {
    "findings-index": findings_index,
    "findings": findings,
    "fixes-table": fixes_table,
    "fixes": fixes,
    "metrics": machine_sampling.tables,
    "about": about,
    "keys": keys,
    "numbers": numbers,
    "terms": terms,
    "tools": tools,
}

_PART = re.compile(r"(<!-- generated: (.+?) -->\n\n).*?\n?(<!-- end -->)", re.DOTALL)


def parts(document: Path) -> Iterator[str]:
    """The kind and words of each part that a document has."""
    for found in _PART.finditer(document.read_text(encoding="utf-8")):
        yield found[2]


def generated(document: Path) -> str:
    """The text of a document with each such part made anew."""
    return _PART.sub(_made, document.read_text(encoding="utf-8"))


def _made(found: re.Match[str]) -> str:
    kind, *words = found[2].split()
    return f"{found[1]}{KINDS[kind](*words)}\n\n{found[3]}"


def main() -> None:
    """Renew every document, and print which ones have changed."""
    for document in DOCUMENTS:
        text = generated(document)
        if text != document.read_text(encoding="utf-8"):
            document.write_text(text, encoding="utf-8")
            print(f"{document.relative_to(ROOT)} renewed")


if __name__ == "__main__":
    main()
