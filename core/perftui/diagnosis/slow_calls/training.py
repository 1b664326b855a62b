"""The step around the model: gradients, weights, optimizers, checkpoints, ranks, the device."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import SlowCall

ROWS = (
    SlowCall(
        "recorded-then-detached",
        "{line} records the graph of a whole network, which detach() then throws away",
        "call it under torch.no_grad(): no activations are kept, and nothing is recorded",
        sources.NO_GRAPH,
        "*.detach",
        frames=r"^torch/nn/modules/",
        where="step",
        given=r"^(?!torch\.)[\w.]+\((?:[^()]|\([^()]*\))*\)\.detach\(\)$",
        within=r"\A(?![\s\S]*(no_grad|inference_mode|set_grad_enabled))",
    ),
    SlowCall(
        "batches-kept-by-cycle",
        "itertools.cycle keeps every batch of the first round, and then gives the same ones again",
        "write a generator that begins anew: while True: yield from loader",
        sources.CYCLED,
        "itertools.cycle",
        frames=r"^",
        given=r"(?i)cycle\([^()]*(load|dl\b|data)",
        rules="page-faults growing-steps",
    ),
    SlowCall(
        "program-solved-on-cpu",
        "{call} solves a program on the CPU, with a copy to NumPy, and the device waits",
        "solve small ones in torch (projected gradient on the products of the "
        "gradients, a few steps), warm-started, or only when a constraint is violated",
        sources.QUADRATIC,
        "quadprog.solve_qp qpsolvers.solve_qp qpsolvers.solve_problem "
        "cvxopt.solvers.qp cvxopt.solvers.lp cvxpy.Problem.solve osqp.OSQP.solve "
        "scipy.optimize.linprog scipy.optimize.nnls scipy.optimize.milp",
        frames=r"^$|^(quadprog|qpsolvers|cvxopt|cvxpy|osqp|scipy)/",
        where="step evaluation",
    ),
    SlowCall(
        "clients-averaged-by-name",
        "the weights of several models are averaged name by name, and model by model",
        "flatten each model once (parameters_to_vector, or torch.cat of its state), "
        "average all by one product, weights @ torch.stack(vectors), and write it back "
        "by views",
        sources.FEDERATED,
        "*.__iadd__ *.__getitem__ *.__op__ torch.stack builtins.sum *.float *.mean "
        "torch.div torch.mean",
        native=True,
        where="step evaluation",
        given=r"\w\[\w+\](\.state_dict\(\))?\[\w+\]|\bfor (\w+) in |\w\[\w+\]",
        without=r"\.grad\b",
        within=r"for (\w+) in (?!range)[^\n]*:[\s\S]*?\b\w*(state|client|local|model)\w*\[\w+\]"
        r"(\.state_dict\(\))?\[\1\]|\b(\w+)\[(\w+)\][^\n]* for \4 in \w*(state|client|lo"
        r"cal|model)\w*[^\n]* for \5 in|for (\w+) in [^\n]*:\n[\s\S]*?\b(\w+)\[\7\][^\n]"
        r"* for \8 in \w*(state|client|local|model)",
    ),
    SlowCall(
        "gradients-projected-by-pairs",
        "gradients of tasks are compared and projected pair by pair, and an if waits "
        "for each number",
        "stack them once: torch.stack(grads) @ torch.stack(grads).t() gives all "
        "products, and the projection needs only these; take product.clamp(max=0) in "
        "place of the if",
        sources.SURGERY,
        "torch.dot *.dot *.norm *.__op__ torch.sum *.sum torch.norm *.item torch.matmul",
        native=True,
        where="step",
        within=r"for (\w+) in [\s\S]*for (\w+) in [^\n]*:\n[\s\S]*(dot\(\1, \2\)|\(\1 \* \2\)\."
        r"sum\(\)|\1 @ \2\b|\1\.dot\(\2\))[\s\S]*\bif [^\n]*< 0",
        in_loop=True,
    ),
    SlowCall(
        "closure-called-again",
        "L-BFGS calls the closure, forward and backward, up to max_iter times in each "
        "step (20 unless given), and reads numbers of the device between",
        "take Adam or SGD for mini-batches; else all samples in one batch, and as few "
        "iterations as converge (max_iter)",
        sources.CLOSURES,
        "torch.optim.LBFGS.step *.step",
        frames=r"^torch/(optim|utils)/",
        where="step",
        given=r"step\(",
        beside=r"torch/optim/lbfgs",
        least=0.2,
    ),
    SlowCall(
        "masks-multiplied-by-name",
        "a mask is multiplied into each weight by itself",
        "torch._foreach_mul_(weights, masks), on lists made once",
        sources.FOREACH,
        "*.mul_ *.__op__ *.__getitem__ *.mul torch.mul *.__iadd__",
        native=True,
        where="step",
        without=r"\.grad\b",
        within=r"for (\w+), (\w+) in [^\n]*(named_parameters\(\)|parameters\(\), \w*mask)[\s\S]"
        r"*\b\2?\1?(\.data)?(\.mul_\(| \*= | = [\w.]+ \* )[^\n]*mask",
        in_loop=True,
    ),
    SlowCall(
        "members-perturbed-by-name",
        "each member of a population gets its weights tensor by tensor, and runs by itself",
        "draw the noise as one matrix of members x weights, and run all at once: "
        "torch.vmap of torch.func.functional_call, over stacked weights",
        sources.POPULATION,
        "torch.randn_like torch.randn *.normal_ *.__op__ *.add_ torch.normal "
        "torch.nn.utils.vector_to_parameters *.copy_ *.data",
        frames=r"^$|^torch/(nn/utils|_tensor|functional)",
        where="step evaluation",
        within=r"\A(?![\s\S]*backward\()[\s\S]*for \w+ in (range\(|[^\n]*(popul|member|candidat"
        r"e|agent|worker|noise))[^\n]*:\n[\s\S]*(for [^\n]*parameters\(\)[^\n]*:\n[\s\S]"
        r"*(randn_like|normal_?|randn)\(|vector_to_parameters\([^\n]*\[\w+\])",
        in_loop=True,
    ),
    SlowCall(
        "slow-weights-one-by-one",
        "slow weights are moved towards the fast ones, and copied back, tensor by tensor",
        "torch._foreach_lerp_(slow, fast, alpha) and torch._foreach_copy_(fast, slow), "
        "on lists made once",
        sources.FOREACH,
        "*.add_ *.copy_ *.lerp_ *.__op__ *.mul_ *.sub *.clone *.__getitem__",
        native=True,
        where="step",
        within=r"(?i)for (\w+) in [^\n]*(\['params'\]|parameters\(\))[^\n]*:\n[\s\S]*slow[\s\S]"
        r"*\b\1(\.data)?\.copy_\(",
        in_loop=True,
    ),
    SlowCall(
        "gradients-copied-to-keep",
        "{line} copies the gradient of each weight by itself, to keep it",
        "keep the tensors themselves, [p.grad for p in params], and let zero_grad() "
        "set p.grad to None, as it does unless told otherwise: the next backward then "
        "makes new ones",
        sources.FOREACH,
        "*.clone *.copy copy.deepcopy",
        frames=r"^$|^torch/_tensor|^python3\S*/copy\.py|/copy\.py",
        where="step",
        given=r"\b\w+\.grad(\.data)?(\.detach\(\))?\.clone\(\)|deepcopy\(\w+\.grad\b",
        in_loop=True,
    ),
    SlowCall(
        "gradients-joined",
        "{call} copies all gradients into one vector each time",
        "compute on the list (torch._foreach_norm, torch._foreach_mul), or let p.grad "
        "be views of one vector, made once, with zero_grad(set_to_none=False)",
        sources.FOREACH,
        "torch.cat torch.concat torch.concatenate torch.hstack",
        frames=r"^$|^torch/",
        where="step",
        given=r"\b(\w+)\.grad\b[^\n]* for \1 in |for \w+, (\w+) in .*\2\.grad",
    ),
    SlowCall(
        "pinned-in-step",
        "{call} copies the batch to pinned memory, and the step waits for that",
        "let a thread of the loader do it: DataLoader(..., pin_memory=True), then "
        ".to(device, non_blocking=True)",
        sources.PINNED,
        "torch.Tensor.pin_memory *.pin_memory",
        frames=r"^$|^torch/",
        where="step",
        waits=True,
    ),
    SlowCall(
        "converted-before-copy",
        "the batch is made floats on the CPU, and all of their bytes are copied to the device",
        "copy it first, and convert there: x.to(device).float(); bytes or class "
        "numbers are a quarter or less",
        sources.BYTES_COPIED,
        "*.to *.cuda",
        frames=r"^$",
        where="step",
        given=r"\.(float|double)\(\)\.(to|cuda)\(|\.to\(torch\.(float(32|64)?|double)\)\.(to|c"
        r"uda)\(|\.type\(torch\.FloatTensor\)\.(to|cuda)\(|\.float\(\)\.div\([^()]*\)\.("
        r"to|cuda)\(",
        waits=True,
    ),
    SlowCall(
        "passes-by-dropout",
        "{call} is run again and again on the same input, for the mean over its dropout",
        "repeat the input instead, and call it once: {call} of "
        "x.repeat_interleave(times, 0), then .unflatten(0, (-1, times)).mean(1); in "
        "parts where memory is short",
        sources.DROPOUT_PASSES,
        "*.__call__ ?.*",
        frames=r"^torch/nn/modules/",
        where="step evaluation",
        given=r"^[\w.]+\([\w.]+\)",
        within=r"\[[^\[\]\n]*\b[\w.]+\([\w.]+\)[^\[\]\n]* for _ in range\(|for _ in range\([^\n"
        r"]*:\n( +with [^\n]*:\n)?( +)\w+\.append\([^\n]*\b[\w.]+\([\w.]+\)[^\n]*(\n(?!"
        r"\2\S)|$)",
        in_loop=True,
    ),
    SlowCall(
        "tasks-by-library",
        "the inner steps of one task after another go weight by weight through Python",
        "adapt all tasks at once: torch.vmap of torch.func.grad over functional_call, "
        "with stacked weights; or copy and adapt the head alone (ANIL)",
        sources.META,
        frames=r"(^|> )(higher|learn2learn|torchmeta|torchopt)/",
        where="step",
        least=0.2,
    ),
    SlowCall(
        "gradients-by-opacus",
        "Opacus keeps a gradient of each weight for each sample",
        "make_private(..., grad_sample_mode='ghost'), which clips by norms alone; or a "
        "part of the weights (adapters, the head)",
        sources.GHOSTS,
        frames=r"(^|> )opacus/",
        where="step",
        least=0.3,
    ),
    SlowCall(
        "tree-searched-in-python",
        "{call} goes through all children of a node in Python, each with its own score",
        "keep counts, values and priors of a node's children in arrays, and take one "
        "argmax: q / n + c * prior * sqrt(n.sum()) / (1 + n)",
        sources.CHILDREN,
        "builtins.max builtins.sorted numpy.argmax",
        frames=r"^",
        where="step evaluation",
        given=r"(?i)(children|actions|moves|edges)\b.*(key=|for )[\s\S]*(visit|ucb|uct|puct|pr"
        r"ior|\.n\b|\.q\b)",
    ),
    SlowCall(
        "clipped-one-by-one",
        "{call} is called for each parameter by itself",
        "call it once, with all of them (model.parameters()); where each is to have a norm of its "
        "own, use torch._foreach_norm and torch._foreach_mul_ on the list of gradients",
        sources.CLIPPING,
        "torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_value_ "
        "torch.nn.utils.clip_grad_norm",
        frames=r"torch/nn/utils/clip_grad\.py|torch/utils/_contextlib|^$",
        given=r"clip_grad\w*\(\[?(p|w|param|parameter|weight)\b",
        in_loop=True,
        where="step",
    ),
    SlowCall(
        "full-state-gathered",
        "the shards of all ranks are gathered to whole weights each time",
        "let each rank save its own shards (torch.distributed.checkpoint.save, or async_save, of "
        "the sharded state), and join them after training",
        sources.FULL_STATE,
        frames=r"torch/distributed/fsdp/(_state_dict_utils\.py\S* _(full|common_unshard)|"
        r"_unshard_param_utils)|torch/distributed/_state_dict_utils\.py\S* _(gather|all_gather)",
        least=0.3,
    ),
    SlowCall(
        "state-of-random-kept",
        "activation checkpointing saves and restores the state of the random generators for each "
        "part that it runs",
        "pass preserve_rng_state=False where the part draws nothing (no dropout)",
        sources.PRESERVED,
        frames=r"^torch/utils/checkpoint\.py \S+ > torch/(cuda/)?random\.py",
        least=0.2,
    ),
    SlowCall(
        "generators-copied",
        "{call} copies states of random generators each time",
        "draw from a torch.Generator of its own; fork_rng copies those of all GPUs unless they are "
        "named (devices=[...])",
        sources.RANDOM_STATE,
        "torch.random.fork_rng torch.get_rng_state torch.set_rng_state torch.random.get_rng_state "
        "torch.random.set_rng_state torch.cuda.get_rng_state torch.cuda.set_rng_state "
        "torch.cuda.get_rng_state_all torch.cuda.set_rng_state_all",
        frames=r"torch/(cuda/)?random\.py",
    ),
    SlowCall(
        "all-seeded",
        "{call} seeds the generators of Python, NumPy and all devices each time",
        "call it once before the loop; draw from a generator of its own where a step must repeat",
        sources.SEEDED,
        "*.seed_everything *.set_seed transformers.set_seed accelerate.utils.set_seed "
        "transformers.enable_full_determinism",
        frames=r"^(pytorch_lightning|lightning|lightning_fabric|transformers|accelerate|diffusers)/",
        where="item step evaluation",
    ),
    SlowCall(
        "device-asked",
        "{call} asks the driver each time",
        "ask once before the loop, and keep the answer",
        sources.DEVICE_ASKED,
        "torch.cuda.is_available torch.cuda.device_count torch.cuda.get_device_name "
        "torch.cuda.get_device_properties torch.cuda.get_device_capability "
        "torch.cuda.is_bf16_supported",
        frames=r"^torch/cuda/__init__\.py",
        where="item step evaluation",
    ),
    SlowCall(
        "optimizer-of-library",
        "this optimizer updates the weights tensor by tensor, in Python",
        "take its counterpart of torch.optim (AdamW, RAdam, NAdam, Adafactor) with fused=True or "
        "foreach=True, pass foreach=True if it has that, or compile it: "
        "torch.compile(optimizer.step)",
        sources.SMALL_WEIGHTS,
        frames=r"(^|> )(timm/optim|pytorch_optimizer|torch_optimizer|lion_pytorch|prodigyopt|"
        r"dadaptation|adabelief_pytorch|madgrad)/(?!\S*foreach)\S+ (?!\S*(foreach|multi_tensor))|"
        r"(^|> )transformers/optimization\.py\S* Adafactor",
        where="step",
        least=0.4,
    ),
    SlowCall(
        "scheduler-of-groups",
        "the scheduler works through all groups of parameters in Python",
        "make one group of all parameters with the same settings: many groups also make the "
        "optimizer's own step slow",
        sources.PARAM_GROUPS,
        "*.step",
        frames=r"^torch/optim/lr_scheduler\.py|> torch/optim/lr_scheduler\.py",
        given=r"(?i)sched",
        where="step",
        least=0.5,
    ),
    SlowCall(
        "norm-checked",
        "error_if_nonfinite makes the host wait for the norm of the gradients at each step",
        "leave it out; look at the norm that it returns every N steps",
        sources.CLIP_SYNC,
        "torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad.clip_grad_norm_",
        frames=r"torch/nn/utils/clip_grad\.py|torch/utils/_contextlib|^$",
        given=r"error_if_nonfinite=True",
        waits=True,
        where="step",
    ),
    SlowCall(
        "scale-fetched",
        "{call} makes the host wait for the device, for a number to report",
        "report it every N steps",
        sources.GET_SCALE,
        "*.get_scale",
        frames=r"torch/(cuda/)?amp/grad_scaler\.py|torch/utils/_contextlib",
        waits=True,
        where="step",
    ),
    SlowCall(
        "average-by-function",
        "avg_fn is called for each tensor by itself",
        "AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay)) averages all at once",
        sources.MULTI_AVERAGE,
        "torch.optim.swa_utils.AveragedModel torch.optim.swa_utils.AveragedModel.update_parameters "
        "*.update_parameters",
        frames=r"get_(ema|swa)_avg_fn\.<locals>|<lambda>$",
        without=r"multi_avg_fn",
        where="step",
        least=0.2,
    ),
    SlowCall(
        "average-by-library",
        "a library updates its average of the weights at each step",
        "update it every N steps (update_every=10), and with foreach=True where there is that",
        sources.EMA_SPEED,
        frames=r"^(ema_pytorch|torch_ema)/|^timm/utils/model_ema\.py|"
        r"^diffusers/training_utils\.py \S*EMAModel",
        where="step",
        least=0.3,
    ),
    SlowCall(
        "weights-averaged-by-name",
        "an average of the weights is updated name by name, in Python",
        "use torch._foreach_lerp_(averages, weights, 1 - decay) on lists made once, or "
        "swa_utils.AveragedModel with get_ema_multi_avg_fn",
        sources.POLYAK,
        "*.copy_ *.lerp_ *.mul_ *.add_ *.mul *.add *.clone *.detach *.__getitem__ torch.lerp",
        given=r"\btau\b|decay|alpha=|momentum|lerp|1(\.0)? -|beta|(shadow|ema|averag)\w*\[",
        within=r"for (\w+), (\w+) in [^\n]*(named_parameters\(\)|state_dict\(\)\.items\(\)|"
        r"(shadow|ema\w*|averag\w*)\.items\(\))[\s\S]*(shadow|ema|averag|decay|momentum)",
        native=True,
        where="step",
        in_loop=True,
    ),
    SlowCall(
        "weights-averaged-by-key",
        "an average of the weights is made name by name, and as new tensors",
        "do it in place and all at once: torch._foreach_lerp_(averages, weights, 1 - decay) on "
        "lists of parameters made once, or swa_utils.AveragedModel with "
        "get_ema_multi_avg_fn(decay)",
        sources.POLYAK,
        "*.__op__ *.lerp torch.lerp *.mul *.add *.mul_ *.add_ *.lerp_ *.copy_",
        given=r"(?=.*(\btau\b|decay|alpha|momentum|lerp|\b1(\.0)? - |beta)).*\w\[\w+\]",
        within=r"\A(?![\s\S]*\.grad\b)(?=[\s\S]*\b(state_dict|named_parameters)\()[\s\S]*"
        r"(\[(\w+)\][^\n]*\bfor \3\b|\bfor (\w+)\b[^\n]* in [\s\S]*\[\4\])",
        native=True,
        where="step",
        in_loop=True,
    ),
    SlowCall(
        "batch-norm-updated",
        "{call} runs the model over the whole loader",
        "do it once, after training, before the averaged model is used",
        sources.SWA,
        "torch.optim.swa_utils.update_bn",
        frames=r"update_bn|decorate_context|^torch/",
        where="step evaluation",
    ),
    SlowCall(
        "computed-in-hook",
        "a hook works on every activation or gradient, each time its module is called",
        "let it return at once except every N steps, or remove it (handle.remove()) when it "
        "is not needed",
        sources.HISTOGRAMS,
        "*",
        frames=r"^$|^torch/(_tensor|functional|nn/functional|_ops)\.py",
        within=r"^(@.*\n)*def \w*hook\w*\(",
        where="step evaluation",
        least=0.5,
        general=True,
    ),
    SlowCall(
        "jacobian",
        "{call} runs backward once for each output",
        "pass vectorize=True, or torch.func.jacrev with vmap, or use vector products (jvp, vjp)",
        sources.JACOBIAN,
        "torch.autograd.functional.jacobian torch.autograd.functional.hessian",
        frames=r"torch/autograd/functional\.py",
        without=r"vectorize=True",
    ),
    SlowCall(
        "gradient-in-loop",
        "{call} runs backward once for each turn",
        "use torch.func.vmap over the loop, or pass is_grads_batched=True",
        sources.JACOBIAN,
        "torch.autograd.grad",
        in_loop=True,
        given=r"grad\(\s*[\w.]+\[",
    ),
    SlowCall(
        "gradient-of-gradient",
        "{call} with create_graph=True makes backward go through backward, at several times "
        "the cost of a step",
        "compute a penalty every 8 or 16 steps with its weight times as many, and on a part of "
        "the batch",
        sources.PENALTY,
        "torch.autograd.grad *.backward torch.Tensor.backward",
        frames=r"^$|torch/autograd|torch/_tensor\.py",
        given=r"create_graph=True",
        where="step",
        least=0.4,
    ),
    SlowCall(
        "gradient-checked",
        "{call} evaluates the function many times, in double precision",
        "keep it in tests, out of the training",
        sources.TUNING,
        "torch.autograd.gradcheck torch.autograd.gradgradcheck",
    ),
    SlowCall(
        "cache-emptied",
        "{call} gives memory back to the driver, which must be asked for again",
        "take it out of the loop; expandable_segments:True helps against fragmentation",
        sources.EMPTY_CACHE,
        "torch.cuda.empty_cache torch.cuda.ipc_collect torch.mps.empty_cache",
        frames=r"^torch/(cuda|mps)/|^$",
    ),
    SlowCall(
        "device-waited-for",
        "{call} stops the host until the device has finished",
        "take it out; to time the step, use torch.cuda.Event",
        sources.SYNCS,
        "torch.cuda.synchronize torch.cuda.Stream.synchronize torch.cuda.Event.synchronize "
        "torch.xpu.synchronize torch.mps.synchronize",
        frames=r"^torch/(cuda|xpu|mps)/|^$",
    ),
    SlowCall(
        "memory-reported",
        "{call} gathers the allocator's whole statistics each time",
        "ask every N steps",
        sources.EMPTY_CACHE,
        "torch.cuda.memory_summary torch.cuda.memory_stats torch.cuda.memory_snapshot "
        "torch.cuda.mem_get_info torch.cuda.utilization torch.cuda.memory_allocated "
        "torch.cuda.max_memory_allocated torch.cuda.memory_reserved "
        "torch.cuda.max_memory_reserved",
        frames=r"torch/cuda/",
    ),
    SlowCall(
        "gradients-clipped",
        "{call} with foreach=False goes through the parameters one by one",
        "leave foreach out: all norms are then computed at once",
        sources.CLIPPING,
        "torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_norm "
        "torch.nn.utils.clip_grad_value_ torch.nn.utils.clip_grad.clip_grad_norm_",
        frames=r"torch/nn/utils/clip_grad\.py|^$",
        given=r"foreach=False",
    ),
    SlowCall(
        "gradients-zeroed-by-hand",
        "gradients are filled with zeros one by one",
        "call optimizer.zero_grad(), which drops them all, or torch._foreach_zero_ on their list",
        sources.ZEROED,
        "*.zero_ *.fill_ *.mul_ *.detach_ torch.zeros_like",
        given=r"\.grad\b.*(zero_\(|fill_\(0|mul_\(0\b|detach_\()|zeros_like\(",
        within=r"\.grad\b(\.data|\.detach\(\))?(\.(zero_|fill_|mul_)\(| = torch\.zeros_like)",
        native=True,
        where="step",
        in_loop=True,
    ),
    SlowCall(
        "gradients-one-by-one",
        "gradients are changed one by one in Python",
        "call torch.nn.utils.clip_grad_norm_ or clip_grad_value_, or torch._foreach_mul_, "
        "_foreach_add_ and the like on the list of gradients",
        sources.CLIPPING,
        "*.clamp_ *.mul_ *.add_ *.div_ *.zero_ *.clamp *.data *.sign_ torch.clamp",
        given=r"\.grad\b",
        native=True,
        where="step",
        in_loop=True,
    ),
    SlowCall(
        "optimizer-by-hand",
        "weights are updated one by one in Python",
        "use torch.optim with foreach=True or fused=True, or torch._foreach_add_, "
        "_foreach_addcdiv_ and the like on lists of tensors",
        sources.POLYAK,
        "*",
        frames=r"^$|torch/_tensor\.py|torch/utils/_contextlib",
        within=r"for (\w+)(?:, \w+)* in [^\n]*(param|weights|group)[^\n]*:[\s\S]*\b\1\.grad\b",
        where="step",
        in_loop=True,
        least=0.6,
        general=True,
    ),
    SlowCall(
        "norm-of-weights",
        "a penalty or norm of the weights is computed tensor by tensor",
        "use weight_decay of the optimizer, or torch._foreach_norm of all weights",
        sources.CLIPPING,
        "*.norm torch.norm *.pow *.square *.abs *.sum torch.sum torch.linalg.vector_norm",
        within=r"for (\w+)(?:, \w+)* in [^\n]*parameters\(",
        where="step",
        in_loop=True,
        native=True,
    ),
    SlowCall(
        "norms-one-by-one",
        "each gradient's norm is computed, and fetched, by itself",
        "use torch._foreach_norm, or torch.nn.utils.get_total_norm of all gradients",
        sources.CLIP_SYNC,
        "*.norm torch.norm torch.linalg.vector_norm",
        frames=r"torch/(_tensor|functional)\.py|^$",
        in_loop=True,
        given=r"grad",
    ),
    SlowCall(
        "buffer-saved",
        "the checkpoint holds the whole buffer of samples, and the training waits until it "
        "is written",
        "save weights and optimizer alone; the buffer apart and rarely, or not at all",
        sources.SERIALIZATION,
        "torch.save pickle.dump joblib.dump",
        frames=r"torch/serialization\.py|^joblib/|^$",
        given=r"(?i)\b\w*(buffer|memory|replay)\w*(\.__dict__|\.\w*(buffer|memory|storage|"
        r"data)\w*)?[,})]",
        without=r"(?i)named_buffers|\.buffers\(",
        where="step evaluation",
    ),
    SlowCall(
        "checkpoint-each-step",
        "{call} writes a file in the step, and the training waits for it",
        "save every few hundred steps, or in the background (torch.distributed.checkpoint."
        "async_save)",
        sources.SERIALIZATION,
        "torch.save safetensors.torch.save_file *.save_pretrained *.save_checkpoint "
        "*.save_state *.save_model joblib.dump pickle.dump",
        frames=r"torch/serialization\.py|^safetensors/|save_pretrained|save_checkpoint|^joblib/|"
        r"^accelerate/|^$",
        where="step evaluation",
    ),
    SlowCall(
        "weights-averaged-in-loop",
        "an average of the weights is updated tensor by tensor, in Python",
        "use torch._foreach_lerp_(averages, weights, 1 - decay) on lists made once, or "
        "swa_utils.AveragedModel(use_buffers=True)",
        sources.POLYAK,
        "*.copy_ *.lerp_ *.mul_ *.add_ *.mul *.add torch.lerp",
        given=r"\btau\b|decay|alpha=|momentum|lerp|1(\.0)? -|beta",
        within=r"for [^\n]* in zip\([^\n]*(parameters|state_dict|buffers|params|weights)",
        native=True,
        where="step",
        in_loop=True,
    ),
    SlowCall(
        "state-in-loop",
        "{call} builds the dict of all weights anew in each turn of the loop",
        "call it once before the loop; for an average, keep pairs of tensors and use "
        "torch._foreach_lerp_",
        sources.DEEPCOPY,
        "*.state_dict *.named_parameters *.parameters",
        frames=r"torch/nn/modules/module\.py",
        in_loop=True,
        where="step evaluation",
    ),
    SlowCall(
        "weights-deepcopied",
        "{call} copies all weights each time they are the best so far",
        "copy them into tensors made once (torch._foreach_copy_), at most once per epoch, or "
        "save them to a file",
        sources.DEEPCOPY,
        "copy.deepcopy",
        frames=r"copy\.py|torch/(nn|_tensor|storage)",
        given=r"state_dict|\bmodel\b|\bnet\b",
        where="step evaluation",
    ),
    SlowCall(
        "tensors-deepcopied",
        "{call} copies all tensors inside {x} one by one",
        "copy them into tensors made once (torch._foreach_copy_), less often",
        sources.DEEPCOPY,
        "copy.deepcopy",
        frames=r"torch/(_tensor|nn/parameter|storage)\.py\S* \S*__deepcopy__",
        where="step evaluation",
    ),
    SlowCall(
        "weights-cloned",
        "all weights are copied one by one, into new memory",
        "copy them into tensors made once (torch._foreach_copy_), and only when the copy is needed",
        sources.DEEPCOPY,
        "*.clone *.cpu *.detach",
        within=r"for (\w+, )?\w+ in [^\n]*(state_dict\(\)\.(items|values)|parameters|buffers)\(",
        native=True,
        where="step evaluation",
        in_loop=True,
    ),
    SlowCall(
        "state-copied",
        "{call} goes through all weights one by one",
        "copy with torch._foreach_copy_, or update an average in place (swa_utils.AveragedModel)",
        sources.DEEPCOPY,
        "*.load_state_dict *.state_dict torch.nn.utils.parameters_to_vector "
        "torch.nn.utils.vector_to_parameters",
        frames=r"torch/nn/(modules/module|utils/convert_parameters)\.py|torch/optim/",
        where="step evaluation",
    ),
    SlowCall(
        "modules-walked",
        "{call} walks through all modules of the model each time",
        "walk once before the loop and keep the list",
        sources.MODULE_WALK,
        "*.named_modules *.modules *.named_parameters *.parameters *.named_buffers *.buffers "
        "*.children *.get_submodule",
        frames=r"torch/nn/modules/module\.py\S* (Module\.)?(named_\w+|_named_members|modules|"
        r"parameters|children|buffers|get_submodule)\b",
        where="step evaluation",
    ),
    SlowCall(
        "model-moved",
        "{call} goes through all parameters each time",
        "call it once, before the loop",
        sources.TUNING,
        "*.to *.cuda *.half *.float *.train *.eval *.requires_grad_",
        frames=r"torch/nn/modules/module\.py:\d+ (Module\.)?(_apply|to|cuda|half|float|train|eval|"
        r"requires_grad_)\b",
        where="step evaluation",
    ),
    SlowCall(
        "objects-gathered",
        "{call} pickles objects, and each rank waits for the others twice",
        "gather tensors (all_reduce, all_gather_into_tensor), every N steps",
        sources.OBJECTS,
        "torch.distributed.all_gather_object torch.distributed.gather_object "
        "torch.distributed.broadcast_object_list torch.distributed.scatter_object_list",
        frames=r"torch/distributed/",
    ),
    SlowCall(
        "number-reduced",
        "{call} of a single number lets all ranks wait for each other, for a report",
        "reduce every N steps, several numbers in one tensor, with async_op=True",
        sources.SYNC_DIST,
        "torch.distributed.all_reduce torch.distributed.reduce torch.distributed.all_gather",
        frames=r"torch/distributed/|^$",
        given=r"loss|acc|metric|correct|total|count|num_|torch\.tensor\(",
        where="step evaluation",
        least=0.4,
    ),
    SlowCall(
        "collectives-one-by-one",
        "{call} is called for each tensor by itself",
        "flatten them into one buffer (torch._utils._flatten_dense_tensors), or leave it to "
        "DistributedDataParallel",
        sources.SYNC_DIST,
        "torch.distributed.all_reduce torch.distributed.broadcast torch.distributed.all_gather",
        frames=r"torch/distributed/|^$",
        in_loop=True,
        where="step",
        least=0.4,
    ),
    SlowCall(
        "gathered-by-accelerate",
        "{call} lets all ranks wait for each other and copies tensors of all of them",
        "gather once per epoch, or sums and counts only",
        sources.SYNC_DIST,
        "*.gather *.gather_for_metrics *.reduce *.pad_across_processes",
        frames=r"^accelerate/",
        where="step evaluation",
    ),
    SlowCall(
        "barrier",
        "{call} lets every rank wait for the slowest",
        "take it out of the loop: collectives wait by themselves",
        sources.OBJECTS,
        "torch.distributed.barrier torch.distributed.monitored_barrier *.wait_for_everyone",
        frames=r"torch/distributed/|^accelerate/",
    ),
    SlowCall(
        "compiled-in-loop",
        "{call} compiles or traces anew each time",
        "do it once, before the loop",
        sources.TUNING,
        "torch.compile torch.jit.trace torch.jit.script torch.fx.symbolic_trace "
        "torch.export.export torch.onnx.export",
        frames=r"torch/(jit|fx|_dynamo|onnx|export)/",
    ),
    SlowCall(
        "values-checked",
        "{call} looks at every value, and the host waits for the answer",
        "check the loss only, every N steps; autograd.detect_anomaly while searching",
        sources.SYNCS,
        "torch.isnan torch.isinf torch.isfinite *.isnan *.isfinite torch.allclose torch.equal "
        "*.isnan.any *.allclose *.equal",
        native=True,
        given=r"isnan|isinf|isfinite|allclose|equal",
        waits=True,
        where="step evaluation",
    ),
    SlowCall(
        "hooks-of-python",
        "{call} adds a hook each time, and all of them are called",
        "register it once, before the loop, or call handle.remove()",
        sources.TUNING,
        "*.register_forward_hook *.register_backward_hook *.register_full_backward_hook "
        "*.register_hook *.register_forward_pre_hook",
        native=True,
        where="step",
    ),
    SlowCall(
        "optimizer-made-each-time",
        "{call} makes an optimizer anew each time, which also forgets its averages",
        "make it once before the loop; change the learning rate in optimizer.param_groups",
        sources.TUNING,
        "torch.optim.*",
        frames=r"torch/optim/\w+\.py\S* \S*(__init__|add_param_group)",
        where="step",
    ),
    SlowCall(
        "hessian-product",
        "{call} runs backward twice through the function, in a way that needs a third",
        "use torch.autograd.functional.vhp, which gives the same for a symmetric matrix, or "
        "torch.func.jvp of torch.func.grad",
        sources.JACOBIAN,
        "torch.autograd.functional.hvp torch.autograd.functional.jvp",
        frames=r"torch/autograd/functional\.py",
    ),
    SlowCall(
        "roots-in-each-step",
        "the optimizer computes the roots of its preconditioner's factors anew in each step",
        "renew them every 10 to 100 steps (preconditioning_steps, precondition_frequency): the "
        "factors are averages, which change slowly",
        sources.SHAMPOO,
        "*",
        frames=r"^",
        within=r"(?i)\A(@.*\n)*def \w*(inv\w*_?root|root_?inv|inverse_pth|matrix_power|compute_"
        r"power|preconditioner)\w*\(",
        where="step",
    ),
)
