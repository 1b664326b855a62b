"""A change of the training loader's arguments as it can be offered for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perftui.facts.fact import Facts
from perftui.facts.loader import LoaderFacts
from perftui.fixes.loader_source import loader_change
from perftui.fixes.model import FixOption, Risk
from perftui.fixes.source.edits import Literal
from perftui.run.manifest import Override


@dataclass(frozen=True)
class LoaderFix:
    """What a fix of the loader is called, and what it does."""

    fix: str
    title: str
    explanation: str

    def option(
        self,
        facts: Facts,
        loader: LoaderFacts,
        why_not: str,
        arguments: Mapping[str, Literal],
        risks: tuple[Risk, ...],
    ) -> FixOption:
        """The fix that gives ``loader`` its ``arguments``, unless ``why_not`` speaks against it;
        reads the source files."""
        if why_not:
            return self._refused(loader, why_not)
        return self._offered(facts, loader, arguments, risks)

    def _refused(self, loader: LoaderFacts, why_not: str) -> FixOption:
        return FixOption(
            fix=self.fix,
            title=self.title,
            explanation=self.explanation,
            why_not=why_not,
            file=loader.file,
            line=loader.line,
        )

    def _offered(
        self,
        facts: Facts,
        loader: LoaderFacts,
        arguments: Mapping[str, Literal],
        risks: tuple[Risk, ...],
    ) -> FixOption:
        change = loader_change(facts, arguments)
        where = f"At {loader.source}: " if loader.source else ""
        given = ", ".join(f"{name}={value}" for name, value in arguments.items())
        return FixOption(
            fix=self.fix,
            title=self.title,
            explanation=self.explanation,
            risks=risks,
            override=Override("DataLoader", dict(arguments), loader.file, loader.line, self.fix),
            patch=change.patch,
            why_not=change.why_not,
            advice=f"{where}DataLoader(..., {given})",
            file=loader.file,
            line=loader.line,
            argv=change.argv,
        )
