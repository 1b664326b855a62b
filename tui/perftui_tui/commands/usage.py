"""What `perftui --help` prints."""

USAGE = """\
perftui: find out why a PyTorch training is slow, and fix it

  perftui [options] SCRIPT [ARGS...]      run a training script and watch it
  perftui [options] -m MODULE [ARGS...]   run a module
  perftui [options] -- COMMAND [ARGS...]  run any command (torchrun, accelerate, ...)
  perftui PATH                            open a trace (torch.profiler, nsys) or a recorded run;
                                          a trace or a directory of them also by URL (s3://...)
  perftui replay [PATH or RUN]            open a trace or a run (default: the newest run)
  perftui attach [RUN]                    watch a running training (default: the newest)
  perftui report PATH [--json]            print the diagnosis of a run, trace or memory snapshot
  perftui [report] TRACE --ncu METRICS.csv  add what limits each kernel, from Nsight Compute
  perftui diagnose [options] SCRIPT ...   run a training without the app and print the report
  perftui diagnose [options] RUN          run the training of a recorded run again
  perftui try [FIX] [RUN]                 measure a fix with pairs of runs, with it and without
  perftui tune [RUN]                      try all fixes one by one and keep those that are proven
  perftui isolate [RUN]                   bound the cost of data loading, output and everything else
  perftui apply [FIX] [RUN]               write a fix to the source
  perftui undo [RUN]                      undo the last fix that was written
  perftui compare BEFORE AFTER            compare two runs or traces, or several runs each
                                          (compare B1 B2... -- A1 A2...)
  perftui check [RUN or TRACE]            fail a build on critical findings or a slower step
  perftui runs [DIR]                      list the recorded runs of DIR (default: of the project)
  perftui runs [DIR] --prune LIMITS       delete the runs that exceed all given limits
  perftui explain [FINDING or FIX]        explain a finding or a fix
  perftui doctor                          check what keeps profiling from working here
  perftui probe [--path DATA]             measure peak disk, copy, memory and matmul rates
  perftui schema [COMMAND]                print the JSON Schema of a command's --json output
  perftui skill                           print a SKILL.md for coding agents
  perftui mcp [--allow-run]               serve these commands to coding agents, as MCP tools
  perftui keys                            print all keys as a keys.toml file
  perftui demo                            run a small training with a slow data loader

Everything after SCRIPT, MODULE or COMMAND belongs to it. Options come before:

  --python PATH     interpreter of the script (default: the first that has torch of the active
                    environment's, perftui's own and those on PATH)
  --runs DIR        where runs are kept (default: .perftui/runs beside the script)
  --headless        no app, only the script's own output
  --no-profile      time the steps, but profile no windows
  --window N        steps in each profiled window (default: as many as save in 50 ms, at most 10)
  --steps A[-B]     profile one window, from step A (to B), instead of several automatic ones
  --overhead P      overhead budget in per cent of the run, windows included (default 1%)
  --shapes          record the input shapes of operators in windows
  --stacks          record Python stacks in windows
  --memory          record allocations in windows
  --modules         mark module calls in windows, at 3 us each, to group time and kernels by
                    module
  --memory-snapshot save a snapshot of GPU allocations at the memory peak and when memory runs
                    out; torch then takes 2 us for each allocation of the whole run
  --syncs           count calls that wait for the GPU in windows, by line
  --stack-rate N    Python stack samples a second, by py-spy (default 10; 0: none)
  --nsys            record the windows with Nsight Systems, with steps and phases as NVTX
                    ranges; the reports are kept with the run
  --nvtx            mark phases as NVTX ranges, for your own nsys
  --max-steps N     end the training after N training steps
  --rank N          the rank to open, of a directory of traces or (report) of a run
  --theme NAME      dark (default), light, contrast, ansi
  --ascii           draw with ASCII only
  --top N           report: rows in each table (default: 10 in text, all in JSON)
  --json            report, diagnose, try, tune, isolate, apply, undo, compare, explain,
                    doctor, probe, check, runs: print JSON
  --brief           report, diagnose, try, compare: at most 2,000 bytes
  --markdown        report, diagnose: print Markdown, for a pull request
  --html FILE       report, diagnose: write one HTML file with charts, for a mail attachment
  --csv TABLE       report, diagnose: print operators, kernels, modules, steps, gaps or findings
                    as CSV
  --folded          report, diagnose: print folded stacks, for flamegraph.pl or speedscope
  --perfetto FILE   report, diagnose: write the trace for ui.perfetto.dev, with steps, idle time
                    and findings as tracks (FILE.json or FILE.json.gz)
  --redact          report, diagnose: in any of these forms, leave out the names of users, hosts
                    and other programs, paths outside the project, addresses, URLs, keys and UUIDs
  --scheduler ADDR  report: let a Dask cluster read the traces of a directory of ranks
  --path DATA       probe: measure the disk that holds DATA (default: the current directory)
  --budget TIME     tune: start no further fix after this time (90s, 15m, 2h)
  --trust           try, tune, isolate, diagnose, apply, undo, replay: run the command of a run
                    that you did not record, and write to its source
  --dry-run         apply, undo, runs --prune: show the change, write or delete nothing
  --no-repeats      compare: only the two runs, without others of the same command and commit
  --fail-on LEVEL   check: fail on findings from this level on: critical (default), warning,
                    info, none; with --against, on those that the baseline does not have
  --against BASE    check: compare with this run or trace, with the newest earlier run of the
                    same command (newest), or with all of them (history)
  --max-regression P  check: how much slower a step may be (default 5%)
  --inconclusive W  check: pass (default) or fail if a check is not certain
  --junit FILE      check: also write JUnit XML
  --github          check: also print annotations for GitHub Actions
  --allow-run       mcp: also offer what runs a training or changes files: diagnose, try, apply,
                    undo
  --older-than TIME runs --prune: runs that ended longer ago (12h, 30d, 8w)
  --keep N          runs --prune: all but the newest N
  --max-size SIZE   runs --prune: the oldest, until the rest takes no more (500M, 5G)
  --version, --help

In the app, ? shows the keys of each screen and q quits; the training can go on without it.
Exit code: the script's; 0 if the training is left running; 2 if perftui cannot do what was
asked; 70 if the app itself fails (the training goes on). try, tune and compare: 0 faster,
3 slower, 4 no difference, 5 not certain, 6 the fix did not reach the training, 1 error.
doctor: 1 if a check fails. check: 0 passed, 1 failed, 2 cannot be judged."""
