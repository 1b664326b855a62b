"""The processes of a run, by what each of them does, and who else uses the cores."""
