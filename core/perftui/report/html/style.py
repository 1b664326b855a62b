"""The style sheet: light and dark by the reader's own choice, from a phone to a desktop, and on
paper. Colour never stands alone: each thing that is coloured also carries a word."""

from __future__ import annotations

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES

KERNEL, COMMUNICATION, COPIES = "kernels", "communication", "copies"
"""What is drawn of a stream."""

_HUES = {
    # On light so dark that white text on it reaches a contrast of 4.5, on dark the same hue so
    # light that near-black text does: Okabe and Ito's where the parts are seen side by side.
    "orange": ("#8a5a00", "#e69f00"),
    "olive": ("#5c5600", "#f0e442"),
    "blue": ("#0063a0", "#56b4e9"),
    "green": ("#00674a", "#2fb98f"),
    "pink": ("#94396d", "#cc79a7"),
    "violet": ("#5b3fb0", "#b9a7f0"),
    "grey": ("#555c63", "#a6adb4"),
    "red": ("#b03a00", "#ff7f50"),
    "teal": ("#00606b", "#5fc9d4"),
    "brown": ("#7a4a2e", "#d8ae8c"),
    "moss": ("#4d6400", "#b7cc4a"),
    "slate": ("#47566b", "#8fa3bd"),
}

_OF_PART = {
    "input_wait": "orange",
    "loader_start": "olive",
    "forward": "blue",
    "backward": "green",
    "optimizer": "pink",
    "profiler": "violet",
    "operators": "teal",
    KERNEL: "blue",
    COMMUNICATION: "pink",
    COPIES: "teal",
    COMPUTE: "blue",
    EXPOSED_COMMUNICATION: "pink",
    EXPOSED_COPIES: "teal",
    GapCause.INPUT_WAIT.value: "orange",
    GapCause.SYNCHRONISATION.value: "red",
    GapCause.LAUNCH.value: "olive",
    GapCause.PYTHON.value: "green",
    GapCause.CPU_OPERATORS.value: "moss",
    GapCause.ALLOCATION.value: "brown",
    GapCause.COMPILATION.value: "violet",
    GapCause.INITIALISATION.value: "violet",
    GapCause.QUEUED.value: "slate",
}


def hue(part: str) -> str:
    """The class of what shows a part of a step, or an idle cause, by its name."""
    return f"c-{_OF_PART.get(part, 'grey')}"


def rules(dark: bool) -> str:
    """A variable for each hue."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in _HUES.items())


def classes() -> str:
    """What has the class of a hue is filled with it: shapes of SVG and boxes alike."""
    return "".join(
        f".c-{name}{{fill:var(--{name});background-color:var(--{name})}}" for name in _HUES
    )


_LIGHT = (
    "--ink:#14181c;--paper:#fff;--card:#f5f6f7;--line:#d5d9dd;--dim:#5a636c;--on:#fff;"
    "--bad:#b03a00;--warn:#8a5a00;--good:#00674a;--note:#0063a0;"
    "--added:#dff3ea;--removed:#fbe5dc;"
)
_DARK = (
    "--ink:#e4e8ec;--paper:#101418;--card:#181e24;--line:#333c45;--dim:#98a2ac;--on:#101418;"
    "--bad:#ff7f50;--warn:#e69f00;--good:#2fb98f;--note:#56b4e9;"
    "--added:#12382d;--removed:#452317;"
)

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;max-width:72rem;padding:1.25rem 1rem 3rem;background:var(--paper);
 color:var(--ink);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
 overflow-wrap:anywhere}
h1,h2,h3,p,dl,dd,ul,figure{margin:0}
h1{font-size:1.6rem;line-height:1.25}
h2{font-size:1.2rem;margin:2.25rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}
h2>.dim{font-size:.9375rem;font-weight:400}
h3{font-size:1rem;margin:1.5rem 0 .5rem}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
 font-size:.875em}
.dim,figcaption,th,.axis{color:var(--dim)}
figcaption,.axis{font-size:.8125rem}
figcaption{margin-top:.4rem}
dl.about{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin-top:.75rem;
 font-size:.9375rem}
dt{color:var(--dim)}
.verdict{margin-top:1.25rem;padding:.9rem 1.1rem;border-radius:.4rem;background:var(--card);
 border-left:.35rem solid var(--tone);font-size:1.15rem;line-height:1.4}
.finding{margin:0 0 1rem;padding:.9rem 1.1rem;border:1px solid var(--line);border-radius:.4rem;
 border-left:.35rem solid var(--tone)}
.finding>header{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline}
.finding h3{margin:0}
.finding>p{margin:.4rem 0}
.critical{--tone:var(--bad)}.warning{--tone:var(--warn)}.info{--tone:var(--note)}
.healthy{--tone:var(--good)}.none{--tone:var(--line)}
.badge{padding:.05rem .5rem;border-radius:.25rem;background:var(--tone);color:var(--on);
 font-size:.75rem;font-weight:700;letter-spacing:.04em}
.gain{font-weight:600;color:var(--tone)}
dl.rows{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0;
 font-size:.9375rem}
.fix{margin:.75rem 0;padding:.7rem .9rem;border-radius:.4rem;background:var(--card)}
.fix dl.rows{margin:.35rem 0 0}
.measured{font-weight:600}
pre{margin:.6rem 0 0;padding:.5rem 0;border:1px solid var(--line);border-radius:.3rem;
 overflow-x:auto;background:var(--paper);line-height:1.45;tab-size:4}
pre span{display:block;padding:0 .75rem;min-width:max-content;white-space:pre}
pre .added{background:var(--added)}pre .removed{background:var(--removed)}
pre .place{color:var(--dim)}
summary{cursor:pointer;color:var(--dim);font-size:.9375rem}
table{width:100%;border-collapse:collapse;font-size:.9375rem}
th,td{padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top;
 border-bottom:1px solid var(--line)}
th{font-weight:500;font-size:.8125rem}
th:last-child,td:last-child{padding-right:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;overflow-wrap:normal}
table.narrow{max-width:44rem}table.narrow th{white-space:nowrap}
.f{white-space:nowrap;font-variant-numeric:tabular-nums}
table.wide th:first-child{width:100%}.wide .n{padding-left:1rem}
tr.whole td{font-weight:600}
.scroll{overflow-x:auto}.scroll td:first-child{min-width:9rem}
.share{display:flex;gap:.5rem;align-items:center;font-size:.75rem;line-height:1.2}
.share>.dim{min-width:3rem}
.meter{flex:1;height:.3rem;border-radius:.15rem;background:var(--card)}
.meter>i{display:block;height:100%;border-radius:.15rem;background:var(--note)}
.key{display:inline-block;width:.7rem;height:.7rem;margin-right:.45rem;border-radius:.15rem}
.keys{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin-top:.4rem;font-size:.8125rem;
 color:var(--dim)}
.strip{position:relative;overflow:hidden;border-radius:.2rem;background-color:var(--card)}
.strip>svg{display:block;width:100%;height:1.4rem}
.strip.step>svg{height:2.2rem}
.strip>span{position:absolute;top:0;bottom:0;padding:0 .3rem;overflow:hidden;color:var(--on);
 font-size:.75rem;line-height:1.4rem;white-space:nowrap;text-overflow:ellipsis;
 pointer-events:none}
.strip.step>span{line-height:2.2rem;font-size:.8125rem}
.strip .odd{fill-opacity:.88}
.strip.rank{margin-top:.25rem}.strip.rank>svg{height:1rem}.strip.rank>span{display:none}
.track{margin-top:.5rem;font-size:.8125rem}
.track .strip{background-image:linear-gradient(90deg,var(--line) 1px,transparent 1px);
 background-size:25% 100%}
.axis{display:flex;justify-content:space-between;margin-top:.3rem;
 font-variant-numeric:tabular-nums}
.chart{position:relative;border-left:1px solid var(--line);border-bottom:1px solid var(--line)}
.chart>svg{display:block;width:100%;height:11rem;overflow:visible}
.chart>span{position:absolute;right:0;font-size:.75rem;color:var(--dim);line-height:1;
 transform:translateY(-100%);padding-bottom:.15rem}
.chart path{fill:none;vector-effect:non-scaling-stroke;stroke-linecap:round}
.range{stroke:var(--blue);stroke-width:2px;stroke-opacity:.35}
.line{stroke:var(--blue);stroke-width:1.5px;stroke-linejoin:round}
.limit{stroke:var(--dim);stroke-width:1px;stroke-dasharray:4 4}
.dot{stroke-width:5px}
.dot.steady{stroke:var(--blue)}.dot.aside{stroke:var(--grey)}
.dot.aside{stroke-width:7px}.dot.hollow{stroke:var(--paper);stroke-width:3px;pointer-events:none}
.dot.slow{stroke:var(--bad);stroke-width:8px}
ul{padding-left:1.2rem;font-size:.9375rem}
footer{margin-top:2.5rem;font-size:.8125rem;color:var(--dim)}
@media (max-width:34rem){
 body{padding:1rem .75rem 2rem}
 h1{font-size:1.3rem}
 .verdict{font-size:1.05rem;padding:.7rem .8rem}
 .finding,.fix{padding:.7rem .75rem}
 dl.about,dl.rows{grid-template-columns:1fr;gap:0}
 dl.about dd,dl.rows dd{margin-bottom:.35rem}
 th,td{padding-right:.4rem}.wide .n{padding-left:0}
 table{font-size:.875rem}
 .chart>svg{height:8rem}
 .strip>.small{display:none}
}
@media print{
 body{max-width:none;padding:0;font-size:10pt}
 .finding,.fix,tr,figure,.track{break-inside:avoid}
 h2,h3{break-after:avoid}
 pre{white-space:pre-wrap}pre span{min-width:0;white-space:pre-wrap}
 details::details-content{content-visibility:visible;height:auto}
 *{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""


def style_sheet() -> str:
    """The whole sheet, which names no file."""
    light, dark = f"{_LIGHT}{rules(False)}", f"{_DARK}{rules(True)}"
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{_RULES}{classes()}"
    )
