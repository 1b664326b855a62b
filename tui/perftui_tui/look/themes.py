"""Colour themes. Meaning is never in colour alone: each coloured thing also carries a word."""

from __future__ import annotations

from textual.theme import Theme

DEFAULT_THEME = "perftui-dark"

# Okabe and Ito's palette, told apart with every common form of colour blindness; the parts of a
# step that are drawn side by side are the pairs that differ most under deuteranopia.
SAFE_ON_DARK = {
    "good": "#2fb98f",
    "dim": "#98a2ac",
    "caution": "#e69f00",
    "bad": "#ff7f50",
    "chart": "#56b4e9",
    "part-text": "#101418",
    "part-input-wait": "#e69f00",
    "part-loader-start": "#f0e442",
    "part-forward": "#56b4e9",
    "part-backward": "#2fb98f",
    "part-optimizer": "#cc79a7",
    "part-profiler": "#b9a7f0",
    "part-other": "#a6adb4",
    "footer-key-foreground": "#e69f00",
}

# The same hues darkened until white text on them, and they on white, reach a contrast of 4.5.
SAFE_ON_LIGHT = {
    "good": "#00674a",
    "dim": "#5a636c",
    "caution": "#8a5a00",
    "bad": "#b03a00",
    "chart": "#0063a0",
    "part-text": "#ffffff",
    "part-input-wait": "#8a5a00",
    "part-loader-start": "#454000",
    "part-forward": "#0063a0",
    "part-backward": "#00674a",
    "part-optimizer": "#94396d",
    "part-profiler": "#5b3fb0",
    "part-other": "#555c63",
    "footer-key-foreground": "#8a5a00",
}

HIGH_CONTRAST = SAFE_ON_DARK | {
    "good": "#00ff9c",
    "dim": "#d0d0d0",
    "caution": "#ffd000",
    "bad": "#ff80a0",
    "chart": "#7fd4ff",
    "part-text": "#000000",
    "part-input-wait": "#ffd000",
    "part-loader-start": "#fff7a8",
    "part-forward": "#7fd4ff",
    "part-backward": "#00ff9c",
    "part-optimizer": "#ff9ad5",
    "part-other": "#ffffff",
}

# Sixteen colours by name: what the terminal's own palette makes of them. Each part has its own.
ANSI = {
    # Textual's own widgets ask an ANSI theme for these.
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_black",
    "input-cursor-foreground": "ansi_bright_white",
    "input-cursor-text-style": "none",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
    "good": "ansi_green",
    "dim": "ansi_default",
    "caution": "ansi_yellow",
    "bad": "ansi_red",
    "chart": "ansi_cyan",
    "part-text": "ansi_black",
    "part-input-wait": "ansi_yellow",
    "part-loader-start": "ansi_bright_yellow",
    "part-forward": "ansi_cyan",
    "part-backward": "ansi_green",
    "part-optimizer": "ansi_magenta",
    "part-profiler": "ansi_bright_blue",
    "part-other": "ansi_white",
}

THEMES = (
    Theme(
        name="perftui-dark",
        primary="#56b4e9",
        secondary="#2fb98f",
        accent="#e69f00",
        foreground="#e4e8ec",
        background="#101418",
        surface="#161b20",
        panel="#20272e",
        warning="#e69f00",
        error="#ff7f50",
        success="#2fb98f",
        variables=SAFE_ON_DARK,
    ),
    Theme(
        name="perftui-light",
        primary="#0063a0",
        secondary="#00674a",
        accent="#8a5a00",
        foreground="#14181c",
        background="#fafafa",
        surface="#f1f2f3",
        panel="#e3e6e9",
        warning="#8a5a00",
        error="#b03a00",
        success="#00674a",
        dark=False,
        variables=SAFE_ON_LIGHT,
    ),
    Theme(
        name="perftui-contrast",
        primary="#7fd4ff",
        secondary="#00ff9c",
        accent="#ffd000",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1c1c1c",
        warning="#ffd000",
        error="#ff80a0",
        success="#00ff9c",
        variables=HIGH_CONTRAST,
    ),
    Theme(
        name="perftui-ansi",
        primary="ansi_blue",
        secondary="ansi_cyan",
        accent="ansi_yellow",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        variables=ANSI,
        ansi=True,
    ),
)
