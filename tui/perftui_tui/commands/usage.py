"""What `perftui --help` prints."""

USAGE = """\
perftui: why is this training slow, and what to do about it

  perftui [options] SCRIPT [ARGS...]      run a training script and watch it
  perftui [options] -m MODULE [ARGS...]   the same for a module
  perftui [options] -- COMMAND [ARGS...]  the same for any command (torchrun, accelerate, ...)
  perftui PATH                            open a trace (.json[.gz], .sqlite) or a recorded run
  perftui replay [PATH or RUN]            the same; the newest run where none is named
  perftui attach [RUN]                    watch a run that lives; the newest where none is named
  perftui report PATH [--json]            print the diagnosis, or the allocations of a snapshot
  perftui [report] TRACE --ncu METRICS.csv  with what limits the kernels, as Nsight Compute says
  perftui diagnose [options] SCRIPT ...   run a training and print the report, without its output
  perftui diagnose [options] RUN          the same for the run in that directory, run once more
  perftui try [FIX] [RUN]                 what a fix gains, by pairs of runs with it and without
  perftui tune [RUN]                      try all fixes one by one, and keep what is proven
  perftui isolate [RUN]                   what loader, output and the rest of a step cost at most
  perftui apply [FIX] [RUN]               write a fix to the source; undo takes it back
  perftui undo [RUN]                      give the source back what it was before the last fix
  perftui compare BEFORE AFTER            which of two runs or traces is faster, and how certain
  perftui runs [DIR]                      list the recorded runs, of DIR or of the project here
  perftui explain [FINDING or FIX]        what a finding or a fix means, and what answers it
  perftui doctor                          what keeps profiling from working here, and what to do
  perftui probe [--path DATA]             measure what disk, copies, memory and matrices reach here
  perftui schema [COMMAND]                JSON Schema of what a command prints with --json
  perftui skill                           a SKILL.md that tells a coding agent how to use all this
  perftui keys                            print all keys, in the form of the file of your own
  perftui demo                            a small training with a slow data loader

Everything after SCRIPT, MODULE or COMMAND belongs to it. Options come before:

  --python PATH     interpreter of the script (default: the active environment's with torch)
  --runs DIR        where runs are kept (default: .perftui/runs beside the script)
  --headless        no app: only the script's own output
  --no-profile      time the steps, but record no profiler windows
  --window N        steps in each profiled window (default: what 50 ms can save, 10 at most)
  --steps A[-B]     record one window, from step A (to B), instead of some now and then
  --overhead P      per cent of the run that recording may take, windows included (default 1%)
  --shapes          record the shapes of operators in windows
  --stacks          record Python stacks in windows
  --memory          record allocations in windows
  --modules         mark the calls of modules in windows, 3 us each, so that time and kernels
                    are grouped by module
  --memory-snapshot record GPU allocations at the memory peak and as it runs out; torch then
                    takes 2 us for each allocation of the whole run
  --syncs           count the calls that wait for the GPU in windows, each by its line
  --stack-rate N    stack samples a second of Python, by py-spy (default 10; 0: none)
  --nsys            let Nsight Systems record the windows, with steps and phases as NVTX ranges;
                    its reports are kept with the run
  --nvtx            mark phases as NVTX ranges, for an nsys of your own
  --max-steps N     end the training after N training steps
  --rank N          of a directory of traces, or with report of a run: rank N
  --theme NAME      dark (default), light, contrast, ansi
  --ascii           draw with ASCII only
  --top N           for report: rows of each table (default: 10 in text, all in JSON)
  --json            for report, diagnose, try, tune, isolate, apply, undo, compare, explain,
                    doctor and probe: print JSON
  --brief           for report, diagnose, try and compare: 2,000 bytes at most
  --path DATA       for probe: read the disk that holds DATA (default: here)
  --budget TIME     for tune: begin no further fix after it (90s, 15m, 2h)
  --dry-run         for apply and undo: show the change, write nothing
  --version, --help

In the app: ? shows the keys of each screen, q leaves; the training goes on if you let it.
Exit code: the script's; 0 when the training is left running; 2 when perftui cannot do what was
asked; 70 when the app itself fails (the training goes on). Of try, tune and compare: 0 faster,
3 slower, 4 no difference, 5 not certain, 6 the fix did not reach the training; 1 for an error.
Of doctor: 1 where something fails."""
