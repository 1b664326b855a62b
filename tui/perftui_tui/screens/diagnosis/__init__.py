"""The Diagnosis screen: each finding, its evidence and its fixes."""

from perftui_tui.screens.diagnosis.screen import DiagnosisScreen as DiagnosisScreen
